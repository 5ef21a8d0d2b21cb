# (room optim)
