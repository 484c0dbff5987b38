"""The code of a *node*, in a Dask worker process: executors, the object store, GPU ids, logs.

User code never runs in this process.
"""
