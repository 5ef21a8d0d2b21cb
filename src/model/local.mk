# (room model)
