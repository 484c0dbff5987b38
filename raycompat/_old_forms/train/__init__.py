"""Old forms of Train."""
