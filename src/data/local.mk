# (room data)
