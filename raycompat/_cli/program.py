"""Running an unmodified program in which ``import ray`` means raycompat.

The program runs in this process as Python itself would run it: in a module ``__main__`` that has the
same names, with the same ``sys.path`` and ``sys.argv``, and with tracebacks that begin in its code.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    BuiltinImporter,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

import raycompat
from raycompat._as_ray import install_as_ray
from raycompat._old_forms import packages
from raycompat._protocol import import_paths
from raycompat._surface.missing import advice_on_command
from raycompat._upper import upper

#: The program that Python reads from its standard input.
_STANDARD_INPUT = "-"

#: A folder with a program ``ray``, which runs the command line of raycompat.
_COMMANDS = str(Path(raycompat.__file__).with_name("_as_ray_bin"))

#: Before the interpreter's path in an entry of PATH, where ``ray`` reads it. There is no such folder.
#: Programs often pass PATH alone to a child, the package may be read-only, and a file would remain.
_INTERPRETER = f"{_COMMANDS}/interpreter="


def run(program: str, arguments: Sequence[str], *, is_module: bool) -> None:
    """Run a script, a folder, a module or the standard input, as Python does."""
    install_as_ray()
    _give_children_the_command()
    sys.argv = [program, *arguments]
    # Never restored: exit handlers belong to the program too.
    main = sys.modules["__main__"] = _new_main(sys.modules["__main__"])
    try:
        if is_module:
            code = _of_module(program, main)
        elif program == _STANDARD_INPUT:
            code = _of_standard_input(main)
        elif os.path.isfile(program) and not _is_archive(program):
            code = _of_file(program, main)
        else:
            code = _of_folder(program, main)
    except SyntaxError as error:
        _end_with(error, None)
    upper("_old.program").prepare_for(code)
    try:
        exec(code, vars(main))
    except SystemExit:
        raise
    except BaseException as error:
        here = error.__traceback__
        _end_with(error, here.tb_next if here is not None else None)


def _give_children_the_command() -> None:
    """Make ``ray`` the command line of raycompat in processes that the program starts."""
    others = os.environ.get("PATH", os.defpath).split(os.pathsep)
    others = [each for each in others if not each.startswith(_COMMANDS)]
    os.environ["PATH"] = os.pathsep.join([_COMMANDS, f"{_INTERPRETER}{sys.executable}", *others])


def _new_main(ours: ModuleType) -> ModuleType:
    main = ModuleType("__main__")
    vars(main).update(__builtins__=builtins)
    if "__annotations__" in vars(ours):  # Python up to 3.13 begins every program with it
        vars(main)["__annotations__"] = {}
    return main


def _look_first_in(folder: str) -> None:
    """Make `folder` the first one of ``sys.path``, in place of the folder of this command."""
    if not sys.flags.safe_path:  # with ``python -P`` there is none
        sys.path[0] = folder


def _compiled(source: bytes, file: str) -> CodeType:
    """Compile a program; the ``__future__`` imports of this module are not the program's."""
    return compile(source, file, "exec", dont_inherit=True)


def _of_standard_input(main: ModuleType) -> CodeType:
    _look_first_in("")
    vars(main).update(__file__="<stdin>", __cached__=None, __loader__=BuiltinImporter)
    return _compiled(sys.stdin.buffer.read(), "<stdin>")


def _of_file(program: str, main: ModuleType) -> CodeType:
    _look_first_in(os.path.dirname(os.path.realpath(program)))
    path = os.path.abspath(program)
    vars(main).update(__file__=path, __cached__=None)
    if path.endswith(tuple(BYTECODE_SUFFIXES)):
        compiled = SourcelessFileLoader("__main__", path)
        main.__loader__ = compiled
        code = compiled.get_code("__main__")
        assert code is not None
        return code
    main.__loader__ = SourceFileLoader("__main__", path)
    with io.open_code(path) as file:
        return _compiled(file.read(), path)


def _is_archive(program: str) -> bool:
    """Return whether the file is an archive with modules, such as `zipapp` writes."""
    return PathFinder.find_spec("__main__", [program]) is not None


def _of_folder(program: str, main: ModuleType) -> CodeType:
    folder = os.path.abspath(program)
    sys.path.insert(0, folder) if sys.flags.safe_path else _look_first_in(folder)
    spec = PathFinder.find_spec("__main__", [folder])
    if spec is None:
        sys.exit(f"raycompat run: {program!r} contains no module __main__.")
    return _of_spec(spec, main)


def _of_module(name: str, main: ModuleType) -> CodeType:
    _look_first_in(import_paths.current_folder() or "")
    sys.argv[0] = "-m"  # until the module is found, as in Python
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
            if spec is None:
                sys.exit(f"raycompat run: {name!r} is a package without a module __main__.")
    except ModuleNotFoundError as error:  # a package above it is missing
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None:
        sys.exit(f"raycompat run: there is no module {name!r}.")
    code = _of_spec(spec, main)
    sys.argv[0] = spec.origin or name
    return code


def _of_spec(spec: ModuleSpec, main: ModuleType) -> CodeType:
    loader: Any = spec.loader  # each loader that Python can run a module with has `get_code`
    code: CodeType | None = loader.get_code(spec.name) if hasattr(loader, "get_code") else None
    if code is None:
        sys.exit(f"raycompat run: the module {spec.name!r} has no Python code.")
    vars(main).update(
        __spec__=spec,
        __loader__=loader,
        __package__=spec.parent,
        __file__=spec.origin,
        __cached__=spec.cached,
    )
    return code


def _end_with(error: BaseException, within: TracebackType | None) -> None:
    """End the process with an error of the program, and show it as Python does."""
    error = error.with_traceback(within)
    advice = packages.advice(error) or advice_on_command(error)
    if advice and advice not in str(error):  # a remote error may have it
        error.add_note(advice)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, within
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    sys.excepthook(type(error), error, within)
    if isinstance(error, KeyboardInterrupt):  # Python ends by the signal itself
        sys.excepthook = lambda *_: None
        raise error
    sys.exit(1)
