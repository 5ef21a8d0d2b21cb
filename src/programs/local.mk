# (room programs)
