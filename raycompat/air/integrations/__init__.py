"""Callbacks of other libraries, where older programs import them from."""
