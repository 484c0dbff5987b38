"""Operations in which all members of a group take part: in CPU memory, or on GPUs by NCCL."""

from raycompat._surface.modules import names_of
from raycompat.util.collective.backend_registry import register_collective_backend
from raycompat.util.collective.collective import (
    allgather,
    allreduce,
    barrier,
    broadcast,
    create_collective_group,
    destroy_collective_group,
    get_collective_group_size,
    get_group_handle,
    get_rank,
    gloo_available,
    init_collective_group,
    is_backend_available,
    is_group_initialized,
    nccl_available,
    recv,
    reduce,
    reducescatter,
    send,
)
from raycompat.util.collective.collective import (
    allgather_multigpu as allgather_multigpu,
)
from raycompat.util.collective.collective import (
    allreduce_multigpu as allreduce_multigpu,
)
from raycompat.util.collective.collective import (
    broadcast_multigpu as broadcast_multigpu,
)
from raycompat.util.collective.collective import (
    recv_multigpu as recv_multigpu,
)
from raycompat.util.collective.collective import (
    reduce_multigpu as reduce_multigpu,
)
from raycompat.util.collective.collective import (
    reducescatter_multigpu as reducescatter_multigpu,
)
from raycompat.util.collective.collective import (
    send_multigpu as send_multigpu,
)

__all__ = [
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "create_collective_group",
    "destroy_collective_group",
    "get_collective_group_size",
    "get_group_handle",
    "get_rank",
    "gloo_available",
    "init_collective_group",
    "is_backend_available",
    "is_group_initialized",
    "nccl_available",
    "recv",
    "reduce",
    "reducescatter",
    "register_collective_backend",
    "send",
]


#: Names of older Rays.
__getattr__ = names_of(__name__)
