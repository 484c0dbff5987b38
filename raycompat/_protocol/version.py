"""The version of raycompat, which must be equal in drivers, the scheduler and all nodes."""

VERSION = "0.1.0"
