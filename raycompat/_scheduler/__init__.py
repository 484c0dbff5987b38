"""The code in Dask's scheduler process: resources, actors' names, and the lifetimes of objects."""
