"""Local mode, ``init(local_mode=True)``: calls run in the driver, one after the other."""
