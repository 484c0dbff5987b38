"""What travels between callers, the scheduler, nodes and executors. Pure: no Dask here."""
