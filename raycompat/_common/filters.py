"""The module of Ray from which programs import `CoreContextFilter`."""

from raycompat._caller.log_context import CoreContextFilter

__all__ = ["CoreContextFilter"]
