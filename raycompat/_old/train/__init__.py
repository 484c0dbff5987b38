"""Forms of older versions of Ray Train."""
