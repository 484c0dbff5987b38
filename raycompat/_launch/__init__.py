"""Starting schedulers and nodes on this machine, and connecting to clusters."""
