"""The code of an executor process, the only process that runs user code besides drivers."""
