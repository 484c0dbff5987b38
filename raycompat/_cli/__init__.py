"""The commands: clusters that outlive the command, and the state of clusters."""
