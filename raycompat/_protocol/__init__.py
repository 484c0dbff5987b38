"""The messages and data that callers, the scheduler, nodes and executors exchange. No Dask here."""
