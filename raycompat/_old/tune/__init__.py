"""Forms of older versions of Ray Tune."""
