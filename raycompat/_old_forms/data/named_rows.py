"""Classes that take the type of their rows in annotations, as in Ray 1.5 to 2.4."""

from __future__ import annotations

from types import GenericAlias


class NamesRows:
    """Takes the type of the rows: ``Dataset[int]``."""

    def __class_getitem__(cls, rows: object) -> GenericAlias:
        return GenericAlias(cls, rows)
