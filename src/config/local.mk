# (room config)
