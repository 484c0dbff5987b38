"""The function that each executor of a job runs first, as a runtime environment names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raycompat._pickling.serialization import dumps
from raycompat._protocol.runtime_env import SETUP_HOOK, is_import_path
from raycompat.exceptions import RuntimeEnvSetupError


def pack(fields: Mapping[str, object]) -> tuple[dict[str, Any], bytes | None]:
    """Return a job's environment with the name of its hook, and the pickled hook.

    The second value is None for an import path, which executors resolve, and without a hook.

    Raises
    ------
    ValueError
        When the import path is not valid.
    RuntimeEnvSetupError
        When the function cannot be pickled.
    """
    hook = fields.get(SETUP_HOOK)
    if isinstance(hook, str) and not is_import_path(hook):
        raise ValueError(
            f"runtime_env[{SETUP_HOOK!r}]: {hook!r} is not valid. Expected a function's import path, "
            "'module.function'."
        )
    if hook is None or isinstance(hook, str):
        return dict(fields), None
    name = str(getattr(hook, "__name__", type(hook).__name__))
    try:
        code = dumps(hook)
    except Exception as error:
        raise RuntimeEnvSetupError(
            f"runtime_env[{SETUP_HOOK!r}]: {name} cannot be pickled: {error!r}. Create what it uses "
            "inside the function, or name it by its import path, 'module.function'."
        ) from error
    return {**fields, SETUP_HOOK: name.rpartition(".")[2]}, code
