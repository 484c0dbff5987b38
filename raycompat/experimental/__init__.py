"""Names that Ray has, or had, under ``ray.experimental``.

Each is imported at its first use, so that ``import raycompat`` stays fast and never imports TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

from raycompat._surface.modules import names_of

if TYPE_CHECKING:
    from raycompat.experimental import shuffle, tf_utils, tqdm_ray
    from raycompat.experimental.locations import get_local_object_locations, get_object_locations
    from raycompat.experimental.tensor_transport import wait_tensor_freed
    from raycompat.experimental.tf_utils import TensorFlowVariables
    from raycompat.util import queue
    from raycompat.util.actor_pool import ActorPool

__all__ = [
    "ActorPool",
    "TensorFlowVariables",
    "get_local_object_locations",
    "get_object_locations",
    "queue",
    "shuffle",
    "tf_utils",
    "tqdm_ray",
    "wait_tensor_freed",
]

#: The module of each name; a module's own name refers to itself.
_MODULES = {
    "ActorPool": "raycompat.util.actor_pool",
    "TensorFlowVariables": "raycompat.experimental.tf_utils",
    "get_local_object_locations": "raycompat.experimental.locations",
    "get_object_locations": "raycompat.experimental.locations",
    "queue": "raycompat.experimental.queue",
    "shuffle": "raycompat.experimental.shuffle",
    "tf_utils": "raycompat.experimental.tf_utils",
    "tqdm_ray": "raycompat.experimental.tqdm_ray",
    "wait_tensor_freed": "raycompat.experimental.tensor_transport",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        # import_module binds a submodule's own name here; the others are bound below.
        module = importlib.import_module(_MODULES[name])
        value = module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
        globals()[name] = value
        return value
    return _name_of_old(name)


#: Names of older Rays.
_name_of_old = names_of(__name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
