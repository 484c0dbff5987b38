"""Of ``ray.rllib.utils`` there are `error` and `tf_utils`, which are imported when first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raycompat.rllib.utils import error, tf_utils

__all__ = ["error", "tf_utils"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"raycompat.rllib.utils.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
