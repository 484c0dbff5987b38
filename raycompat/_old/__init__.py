"""What lives only for programs of older Rays; see README.md in this folder."""
