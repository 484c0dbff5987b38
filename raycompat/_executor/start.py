"""The start of an executor: forked from the forkserver, or in a new interpreter."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

from raycompat._executor import rank
from raycompat._host import memory_file
from raycompat._messages.executor_setup import ExecutorSetup
from raycompat._protocol import run_module, threads

_UNKNOWN_VARIABLE = re.compile(r"\$\{[A-Z0-9_]+\}")


def expanded(variables: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` with `variables` set, one after the other.

    ``${NAME}`` and ``$NAME`` in a value are replaced by the earlier value of that variable; an unknown
    ``${NAME}`` is replaced by nothing, as in Ray.
    """
    result = dict(environment)
    for name, value in variables.items():
        known = re.sub(
            r"\$\{(\w+)\}|\$(\w+)",
            lambda found: result.get(found[1] or found[2], found[0]),
            value,
            flags=re.ASCII,
        )
        result[name] = _UNKNOWN_VARIABLE.sub("", known)
    if "PYTHONPATH" in variables:  # an empty entry would mean the current folder
        result["PYTHONPATH"] = result["PYTHONPATH"].strip(os.pathsep)
    return result


def prepare() -> None:
    """Prepare the forkserver: find the memory of its title, which lies beside the environment."""
    from raycompat._executor import title

    title.find()


def begin(connection: socket.socket, request: Mapping[str, Any]) -> NoReturn:
    """Run as the executor that `request` describes. Its output is already set up."""
    rank.lower(*request["rank"])
    is_given = threads.VARIABLE in request["variables"]
    by_cpus = rank.adopt(os.environ, is_given=is_given)
    environment = expanded(request["variables"], os.environ)
    if request["interpreter"] is not None:
        _replace(connection, request, environment, by_cpus=by_cpus)
    os.environ.update(environment)
    if by_cpus:
        rank.follow_cpus()
    time.tzset()
    import numpy as np

    np.random.seed()
    _serve(connection, request["setup"])


def _replace(
    connection: socket.socket,
    request: Mapping[str, Any],
    environment: dict[str, str],
    *,
    by_cpus: bool,
) -> NoReturn:
    """Continue in a new interpreter in the same process, with the same parent."""
    if by_cpus:
        environment.pop(threads.VARIABLE, None)  # it is set so that the forkserver can fork
    given = (connection.fileno(), request["setup"], by_cpus)
    descriptor = memory_file.put("raycompat-request", given)
    os.set_inheritable(descriptor, True)
    os.set_inheritable(connection.fileno(), True)
    arguments = ["-P", run_module.__file__, __name__, str(descriptor)]
    os.execve(request["interpreter"], [request["interpreter"], *arguments], environment)


def begin_in_new_interpreter(descriptor: int) -> NoReturn:
    """Run as an executor in a new interpreter that `_replace` has started."""
    number, setup, by_cpus = memory_file.take(descriptor)
    os.set_inheritable(number, False)
    sys.argv = [""]
    if by_cpus:
        rank.follow_cpus()
    _serve(socket.socket(fileno=number), setup)


def _serve(connection: socket.socket, setup: ExecutorSetup) -> NoReturn:
    code = 1
    try:
        from raycompat._executor.main import serve

        code = serve(connection, setup)
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # user code may have closed or replaced it
                    stream.flush()
        finally:
            os._exit(code)


if __name__ == "__main__":
    begin_in_new_interpreter(int(sys.argv[1]))
