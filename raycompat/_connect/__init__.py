"""Where a cluster is, and how a process connects to it."""
