"""STUB until the real one lands."""
from __future__ import annotations
U = 10_000
class ResourceSet:
    __slots__ = ("_u",)
    def __init__(self, u): self._u = {k: v for k, v in u.items() if v}
    @classmethod
    def from_amounts(cls, a, *, whole_gpus=True): return cls({k: round(v * U) for k, v in a.items()})
    @classmethod
    def from_units(cls, u): return cls(dict(u))
    def units(self): return dict(self._u)
    def amounts(self): return {k: v / U for k, v in self._u.items()}
    def __hash__(self): return hash(frozenset(self._u.items()))
    def __eq__(self, o): return self._u == o._u
    def __repr__(self): return str(self.amounts())
