"""The names of ``import raycompat as ray``, and the modules that have them.

Type checkers read this file, and the package itself: it imports a name when a program first uses it.
"""

from logging import Logger

from raycompat import _private as _private
from raycompat import actor as actor
from raycompat import air as air
from raycompat import cloudpickle as cloudpickle
from raycompat import dag as dag
from raycompat import data as data
from raycompat import exceptions as exceptions
from raycompat import experimental as experimental
from raycompat import job_config as job_config
from raycompat import object_ref as object_ref
from raycompat import remote_function as remote_function
from raycompat import rllib as rllib
from raycompat import runtime_context as runtime_context
from raycompat import runtime_env as runtime_env
from raycompat import train as train
from raycompat import tune as tune
from raycompat import util as util
from raycompat._api import available_resources as available_resources
from raycompat._api import cancel as cancel
from raycompat._api import cluster_resources as cluster_resources
from raycompat._api import get as get
from raycompat._api import get_gpu_ids as get_gpu_ids
from raycompat._api import nodes as nodes
from raycompat._api import put as put
from raycompat._api import remote as remote
from raycompat._api import timeline as timeline
from raycompat._api import wait as wait
from raycompat._as_ray import install_as_ray as install_as_ray
from raycompat._caller.environment_variables import env as env
from raycompat._launch.driver import init as init
from raycompat._launch.driver import is_initialized as is_initialized
from raycompat._launch.driver import shutdown as shutdown
from raycompat._protocol.environment import EnvironmentVariable as EnvironmentVariable
from raycompat._protocol.id_types import ActorClassID as ActorClassID
from raycompat._protocol.id_types import ActorID as ActorID
from raycompat._protocol.id_types import FunctionID as FunctionID
from raycompat._protocol.id_types import JobID as JobID
from raycompat._protocol.id_types import NodeID as NodeID
from raycompat._protocol.id_types import PlacementGroupID as PlacementGroupID
from raycompat._protocol.id_types import TaskID as TaskID
from raycompat._protocol.id_types import UniqueID as UniqueID
from raycompat._protocol.id_types import WorkerID as WorkerID
from raycompat._protocol.logging_config import LoggingConfig as LoggingConfig
from raycompat.actor import get_actor as get_actor
from raycompat.actor import kill as kill
from raycompat.actor import method as method
from raycompat.object_ref import DynamicObjectRefGenerator as DynamicObjectRefGenerator
from raycompat.object_ref import ObjectID as ObjectID
from raycompat.object_ref import ObjectRef as ObjectRef
from raycompat.object_ref import ObjectRefGenerator as ObjectRefGenerator
from raycompat.runtime_context import get_runtime_context as get_runtime_context
from raycompat.util.serialization import register_custom_serializer as register_custom_serializer

__version__: str
logger: Logger
SCRIPT_MODE: int
WORKER_MODE: int
LOCAL_MODE: int
