"""Small functions of Ray Tune that other packages import."""
