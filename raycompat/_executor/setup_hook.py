"""The function that a job's executors run first."""

from __future__ import annotations

import importlib
import pickle
import traceback
from collections.abc import Mapping
from typing import Any

from raycompat._protocol import runtime_env


def run(setup: Mapping[str, Any]) -> str | None:
    """Run the hook of this process's runtime environment, if it has one; return why it failed."""
    named = runtime_env.loads(setup["runtime_env"]).get(runtime_env.SETUP_HOOK)
    if named is None:
        return None
    try:
        if runtime_env.is_import_path(named):
            module, _, name = named.rpartition(".")
            hook = getattr(importlib.import_module(module), name)
        elif setup["setup_hook"] is None:
            raise ValueError("expected a function's import path, 'module.function'")
        else:
            hook = pickle.loads(setup["setup_hook"])
        hook()
    except BaseException:  # `SystemExit` too: the call that waits for this process has not begun
        return f"its worker_process_setup_hook, {named}, failed:\n{traceback.format_exc().rstrip()}"
    return None
