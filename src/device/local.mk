# (room device)
