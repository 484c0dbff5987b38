"""The functions that a job's executors run first."""

from __future__ import annotations

import importlib
import pickle
import traceback
from collections.abc import Callable
from functools import partial

from raycompat._caller import tracing
from raycompat._messages.executor_setup import ExecutorSetup
from raycompat._protocol import runtime_env


def run(setup: ExecutorSetup) -> str | None:
    """Run the hooks that this process's job and runtime environment name; return why one failed."""
    hooks: list[tuple[str, str, Callable[[], object]]] = []
    if (tracing_hook := setup.program.tracing_hook) is not None:
        hooks.append(("_tracing_startup_hook", tracing_hook, partial(tracing.start, tracing_hook)))
    named = runtime_env.loads(setup.runtime_env).get(runtime_env.SETUP_HOOK)
    if named is not None:
        hooks.append((runtime_env.SETUP_HOOK, named, partial(_run_named, named, setup)))
    for kind, name, hook in hooks:
        try:
            hook()
        # `SystemExit` too: the call that waits for this process has not begun.
        except BaseException:
            return f"its {kind}, {name}, failed:\n{traceback.format_exc().rstrip()}"
    return None


def _run_named(named: str, setup: ExecutorSetup) -> None:
    if runtime_env.is_import_path(named):
        module, _, name = named.rpartition(".")
        hook = getattr(importlib.import_module(module), name)
    elif setup.program.setup_hook is None:
        raise ValueError("expected a function's import path, 'module.function'")
    else:
        hook = pickle.loads(setup.program.setup_hook)
    hook()
