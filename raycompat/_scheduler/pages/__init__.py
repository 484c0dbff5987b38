"""Pages of Ray's nodes, actors, waiting calls, placement groups and GPUs in Dask's dashboard."""
