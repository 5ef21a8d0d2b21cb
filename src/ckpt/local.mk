# (room ckpt)
