"""Old forms of Tune."""
