# (room metrics)
