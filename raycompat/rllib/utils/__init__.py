"""Of ``ray.rllib.utils`` there are `error` and `tf_utils`, which are imported when first used."""

import importlib
from typing import TYPE_CHECKING, Any

from raycompat._surface.modules import names_of

if TYPE_CHECKING:
    from raycompat.rllib.utils import error, tf_utils

_of_older_rays = names_of(__name__)

__all__ = ["error", "tf_utils"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"raycompat.rllib.utils.{name}")
    return _of_older_rays(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
