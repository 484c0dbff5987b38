"""Drivers and executors as callers: references, sending of calls, get and wait."""
