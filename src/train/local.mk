# (room train)
