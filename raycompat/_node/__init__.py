"""What runs in a Dask worker process, a *node*: executors, the object store, GPU ids, logs.

User code never runs here.
"""
