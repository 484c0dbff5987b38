"""Starting schedulers and nodes on this machine, and the session of a driver."""
