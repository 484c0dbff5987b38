"""Ray's API on Dask: ``import raycompat as ray``.

The steps of a call, ``ref = f.remote(x)`` and ``ray.get(ref)``:

1. `RemoteFunction.remote` checks the arguments and exports the function once
   (`remote_function`, `_caller.arguments`, `_caller.exports`). `_caller.send` chooses the sender.
2. The call leaves as one message on the Dask client's stream (`_caller.by_scheduler`).
3. The scheduler plugin makes it a Dask task. When its dependencies are ready and its resources are
   free, the plugin grants it to a node (`_scheduler.calls`, `_scheduler.dispatcher`).
4. The node plugin, in a Dask worker, passes it to an executor (`_node.tasks`, `_node.executor_pool`).
5. The executor, a separate process, runs the user's code and serializes the result: a small one into
   the answer, a large one into shared memory (`_executor.run_call`, `_pickling.serialization`).
6. The answer returns through the scheduler to the caller's table (`_caller.object_table`). Dask stores
   the result under the call's key for other processes.
7. `get` finds it in the table, or fetches it from the node that stores it (`_caller.resolve`).

Most calls need only CPUs and memory, and take a shorter way. The scheduler leases executors for many
calls, by the same steps 2 to 4, and the caller sends them its calls directly (`_caller.by_lease`,
`_executor.run_leased`). A call of an actor's method, ``ref = counter.add.remote(2)``, is direct too:

1. `ActorMethod.remote` serializes the arguments (`actor`, `_caller.arguments`).
2. The channel sends them, in order, to the actor's process (`_caller.by_channel`).
3. The process runs the calls in turn (`_executor.mailbox`, `_executor.lanes`).
4. The answer returns on the channel, to the thread that waits in `get`, or to the pump.
"""

import atexit
import concurrent.futures.thread  # noqa: F401 (it cannot be imported while the interpreter ends)
import importlib
import logging
import os
import sys
from typing import Any

# First: on another system than Linux, this is the one place that raises.
from raycompat import _host as _host  # isort: split

from raycompat import _face
from raycompat._protocol import import_paths, version
from raycompat._surface import modules as _old_modules

__version__ = version.VERSION

#: The package's logger, which `init` configures.
logger = logging.getLogger(__name__)

#: Ray's numbers for the modes of a process.
SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = 0, 1, 2

#: Ray's names that can be imported, and raise an error when they are used. Ray imports the modules
#: among them, so that programs find them without an import.
_REFUSED = (
    "ClientBuilder",
    "Language",
    "client",
    "client_builder",
    "cpp_function",
    "cross_language",
    "java_actor_class",
    "java_function",
    "widgets",
)


def __getattr__(name: str) -> Any:
    """Import a module at its first use, and all else at the first use of any of it (PEP 562).

    All at once, because a test can replace ``sys.modules`` for a while: then names of one module must
    not come from two copies of it.
    """
    module = _face.MODULES.get(name)
    if module is not None:
        with import_paths.NamingHidden():
            if module == __name__:
                return importlib.import_module(f"{__name__}.{name}")
            value = getattr(importlib.import_module(module), name)
            for each, found in _face.load().items():
                globals().setdefault(each, found)  # a program may have replaced it
        return value
    if name in _REFUSED:
        from raycompat._surface.missing import MissingName

        return MissingName(f"ray.{name}")
    if (
        name in _modules
    ):  # an import of it asks here first, and need not look through the older Rays
        raise AttributeError(f"module {__name__!r} has no attribute {name!r} before it is imported")
    return _of_older_rays(name)


@atexit.register
def _leave() -> None:
    """End the session. Handlers that a program registers after this import run before."""
    driver = sys.modules.get(f"{__name__}._launch.driver")
    if driver is not None:
        driver.shutdown(_exiting_interpreter=True)


def __dir__() -> list[str]:
    return sorted({*globals(), *_face.MODULES})


_modules = frozenset(entry.partition(".")[0] for entry in os.listdir(__path__[0]))
_old_modules.install()
_of_older_rays = _old_modules.names_of(__name__)

__all__ = [  # noqa: PLE0604 (names are read from the stub)
    "LOCAL_MODE",
    "SCRIPT_MODE",
    "WORKER_MODE",
    "__version__",
    *_face.FOR_ALL,
]
