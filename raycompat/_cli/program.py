"""Running an unmodified program in which ``import ray`` means raycompat."""

from __future__ import annotations

import builtins
import io
import os
import runpy
import sys
from collections.abc import Sequence
from types import ModuleType

from raycompat._as_ray import install_as_ray


def run(program: str, arguments: Sequence[str], *, is_module: bool) -> None:
    """Run a script or a module like Python: in ``__main__``, with its own ``sys.argv``."""
    install_as_ray()
    sys.argv = [program, *arguments]
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(program, run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.path.dirname(os.path.realpath(program))
    path = os.path.abspath(program)
    main = ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=builtins)
    sys.modules["__main__"] = main  # never restored: exit handlers belong to the program too
    try:
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec")
        exec(code, main.__dict__)
    except Exception as error:  # shown as by Python: the traceback begins in the program
        here = error.__traceback__
        within = here.tb_next if here is not None else None
        sys.excepthook(type(error), error.with_traceback(within), within)
        sys.exit(1)
