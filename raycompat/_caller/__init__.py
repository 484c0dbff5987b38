"""Drivers and executors as callers: references, submission, get and wait."""
