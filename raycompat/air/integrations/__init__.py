"""Callbacks of other libraries, for older programs that import them from here."""
