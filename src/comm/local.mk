# (room comm)
