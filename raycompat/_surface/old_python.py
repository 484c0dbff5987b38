"""Names that earlier versions of Python and NumPy had: in `collections`, and in ``numpy``."""

from __future__ import annotations

import collections
import collections.abc
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Literal

from raycompat._surface import forms

_USE = "collections in place of collections.abc"
_USE_OF_NUMPY = "a name that NumPy has removed"

#: Names of Python's own types in NumPy, which it had until 1.23.
_TYPES: dict[str, type[Any]] = {
    "bool": bool,
    "complex": complex,
    "float": float,
    "int": int,
    "long": int,
    "object": object,
    "str": str,
    "unicode": str,
}

#: Names that NumPy had until 1.26 or later, and today's names of the same.
_TODAY = {
    "Inf": "inf",
    "Infinity": "inf",
    "NaN": "nan",
    "PINF": "inf",
    "alltrue": "all",
    "cfloat": "complex128",
    "clongfloat": "clongdouble",
    "complex_": "complex128",
    "cumproduct": "cumprod",
    "float_": "float64",
    "infty": "inf",
    "longcomplex": "clongdouble",
    "longfloat": "longdouble",
    "mat": "asmatrix",
    "product": "prod",
    "round_": "round",
    "row_stack": "vstack",
    "singlecomplex": "complex64",
    "sometrue": "any",
    "string_": "bytes_",
    "trapz": "trapezoid",
    "unicode_": "str_",
}


def install() -> None:
    """Let what Ray's programs of 2017 to 2024 expect of Python and NumPy work in this process.

    ``from collections import Iterable`` did until Python 3.9, and ``numpy.float`` and ``numpy.product``
    did until NumPy 1.23 and 1.26.
    """
    if not hasattr(collections, "__getattr__"):
        vars(collections)["__getattr__"] = _moved
    if any(isinstance(finder, _NumpyFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _NumpyFinder())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        _add_to(numpy)


def _moved(name: str) -> Any:
    if name not in collections.abc.__all__:
        raise AttributeError(f"module 'collections' has no attribute {name!r}")
    forms.used(_USE, refusal=AttributeError)
    return getattr(collections.abc, name)


class _NumpyFinder:
    """Finds ``numpy`` as the others do; its module gets the former names when it is executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of ``numpy``; None for all others."""
        if fullname != "numpy":
            return None
        others = [each for each in sys.meta_path if each is not self]
        found = (each.find_spec(fullname, path, target) for each in others)
        spec = next(filter(None, found), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_add(module: ModuleType) -> None:
                del loader.exec_module  # that of its class again
                execute(module)
                _add_to(module)

            loader.exec_module = execute_and_add
        return spec


def _add_to(numpy: ModuleType) -> None:
    """Give ``numpy`` the former names; one that the installed version has is not touched."""
    known: Callable[[str], Any] = vars(numpy)["__getattr__"]

    def former(name: str) -> Any:
        if name in _TYPES:
            value: Any = _TYPES[name]
        elif name in _TODAY:
            value = getattr(numpy, _TODAY[name])
        elif name == "NINF":
            value = -numpy.inf
        elif name in _FUNCTIONS:
            value = _FUNCTIONS[name]
        else:
            return known(name)
        forms.used(_USE_OF_NUMPY, refusal=AttributeError)
        return value

    vars(numpy)["__getattr__"] = former


def _as_floats(a: Any, dtype: Any = float) -> Any:
    """Return an array of floating-point numbers."""
    import numpy as np

    return np.asarray(a, dtype if np.issubdtype(dtype, np.inexact) else np.float64)


def _in_1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Literal["sort", "table"] | None = None,
) -> Any:
    """Return for each element of one array, in one dimension, whether it is in another."""
    import numpy as np

    return np.isin(ar1, ar2, assume_unique=assume_unique, invert=invert, kind=kind).ravel()


#: Functions that NumPy had until 1.26, and that no function of today equals.
_FUNCTIONS: dict[str, Callable[..., Any]] = {"asfarray": _as_floats, "in1d": _in_1d}
