"""Names that Ray keeps, or once kept, under ``ray.experimental``.

Each is imported when it is first used, so that ``import raycompat`` stays quick and never
imports TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raycompat.experimental import tf_utils
    from raycompat.experimental.tf_utils import TensorFlowVariables

__all__ = ["TensorFlowVariables", "tf_utils"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        # import_module binds the submodule's own name here; the class is bound below.
        module = importlib.import_module("raycompat.experimental.tf_utils")
        value = module if name == "tf_utils" else getattr(module, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
