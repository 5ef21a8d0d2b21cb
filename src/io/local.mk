# (room io)
