# (room engine)
