"""Old forms of data sets."""
