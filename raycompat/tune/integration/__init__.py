"""Connections of Tune to other libraries."""
