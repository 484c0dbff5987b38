"""The execution of trials."""
