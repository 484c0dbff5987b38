"""The version of raycompat, which drivers, the scheduler and all nodes must have in common."""

VERSION = "0.1.0"
