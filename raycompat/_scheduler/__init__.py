"""What runs in Dask's scheduler process: who may run where, actors' names, what keeps what alive."""
