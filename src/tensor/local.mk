# (room tensor)
