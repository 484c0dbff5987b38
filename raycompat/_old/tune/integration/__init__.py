"""Callbacks of other libraries that report to Tune, and trainables with several workers."""
