"""Groups of PyTorch's process groups: the backend ``nccl``, for tensors on GPUs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

import numpy as np

from raycompat._pytorch import imported
from raycompat.util.collective.collective_group._plain_group import DEFAULT_TIMEOUT_MS, PlainGroup
from raycompat.util.collective.collective_group.cpu_collective_group import CPUGroup
from raycompat.util.collective.types import Backend, CollectiveError, ReduceOp

#: Bytes for the address of rank 0, as text.
_ADDRESS_BYTES = 256

#: PyTorch's names of reductions.
_REDUCTIONS = {
    ReduceOp.SUM: "SUM",
    ReduceOp.PRODUCT: "PRODUCT",
    ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX",
}


class TorchGroup(PlainGroup):
    """A group whose operations are those of a process group of PyTorch.

    The group is separate from the default one of ``torch.distributed``, which Train uses. Its members
    find each other by a group in CPU memory, over which rank 0 sends the address of its store.

    Parameters
    ----------
    world_size, rank, group_name
        As for `BaseGroup`.
    gloo_timeout : int, default 30000
        Milliseconds for the group to become complete, and for an operation.
    """

    #: The type of device whose tensors it takes.
    device: ClassVar[str]

    def __init__(
        self,
        world_size: int,
        rank: int,
        group_name: str,
        gloo_timeout: int | None = DEFAULT_TIMEOUT_MS,
    ) -> None:
        super().__init__(world_size, rank, group_name)
        timeout = timedelta(milliseconds=gloo_timeout or DEFAULT_TIMEOUT_MS)
        distributed = imported("raycompat.util.collective").distributed
        meeting = CPUGroup(world_size, rank, group_name, gloo_timeout)
        try:
            store = _common_store(distributed, meeting, timeout)
            self._group = self._form(distributed, store, timeout)
            meeting.barrier()  # all have connected to the store of rank 0
        finally:
            meeting.destroy_group()
        self._store = store

    def _form(self, distributed: Any, store: Any, timeout: timedelta) -> Any:
        """Return PyTorch's group."""
        raise NotImplementedError

    def _check(self, *tensors: Any) -> None:
        for each in tensors:
            kind = getattr(getattr(each, "device", None), "type", None)
            if kind != self.device:
                raise RuntimeError(
                    f"The backend {self.backend()} takes torch.Tensors on {self.device}, not "
                    f"{type(each).__name__}{'' if kind is None else f' on {kind}'}. Move it with "
                    f"tensor.to({self.device!r}), or use the backend 'gloo'."
                )

    def _run(self, what: str, start: Any) -> None:
        try:
            work = start()
            if work is not None:
                work.wait()
        except RuntimeError as error:
            raise CollectiveError(
                f"{what} of the group {self.group_name!r} failed: {error}"
            ) from error

    def destroy_group(self) -> None:
        """Release PyTorch's group."""
        self._group.shutdown()

    # --- operations -------------------------------------------------------------------------------

    def _allreduce(self, tensor: Any, op: ReduceOp) -> None:
        self._check(tensor)
        options = self._options("AllreduceOptions")
        options.reduceOp = _reduction(op)
        self._run("allreduce", lambda: self._group.allreduce([tensor], options))

    def _barrier(self) -> None:
        torch = imported("raycompat.util.collective")
        token = torch.ones(1, device=self.device)
        self._allreduce(token, ReduceOp.SUM)
        token.item()

    def _reduce(self, tensor: Any, op: ReduceOp, root: int) -> None:
        self._check(tensor)
        options = self._options("ReduceOptions")
        options.reduceOp, options.rootRank = _reduction(op), root
        values = [tensor if self.rank == root else tensor.clone()]
        self._run("reduce", lambda: self._group.reduce(values, options))

    def _broadcast(self, tensor: Any, root: int) -> None:
        self._check(tensor)
        options = self._options("BroadcastOptions")
        options.rootRank = root
        self._run("broadcast", lambda: self._group.broadcast([tensor], options))

    def _allgather(self, outputs: list[Any], tensor: Any) -> None:
        self._check(tensor, *outputs)
        self._run("allgather", lambda: self._group.allgather([outputs], [tensor]))

    def _reducescatter(self, output: Any, tensors: list[Any], op: ReduceOp) -> None:
        self._check(output, *tensors)
        options = self._options("ReduceScatterOptions")
        options.reduceOp = _reduction(op)
        start = self._group.reduce_scatter
        self._run("reducescatter", lambda: start([output], [tensors], options))

    def _send(self, tensor: Any, to: int) -> None:
        self._check(tensor)
        self._run("send", lambda: self._group.send([tensor], to, 0))

    def _recv(self, tensor: Any, source: int) -> None:
        self._check(tensor)
        self._run("recv", lambda: self._group.recv([tensor], source, 0))

    @staticmethod
    def _options(name: str) -> Any:
        return getattr(imported("raycompat.util.collective").distributed, name)()


class NCCLGroup(TorchGroup):
    """A group of processes with one GPU each.

    Notes
    -----
    Ray source: ``ray.util.collective``'s group for NCCL, 2.60.0. Differs from Ray: PyTorch calls NCCL,
    not CuPy, so tensors are PyTorch's.
    """

    device = "cuda"

    def _form(self, distributed: Any, store: Any, timeout: timedelta) -> Any:
        options = distributed.ProcessGroupNCCL.Options()
        options._timeout = timeout
        return distributed.ProcessGroupNCCL(store, self.rank, self.world_size, options)

    @classmethod
    def backend(cls) -> str:
        """Return ``"NCCL"``."""
        return Backend.NCCL

    @classmethod
    def check_backend_availability(cls) -> bool:
        """Return whether PyTorch has NCCL and this process sees a GPU."""
        try:
            torch = imported("raycompat.util.collective")
        except ImportError:
            return False
        distributed = torch.distributed
        has_nccl = distributed.is_available() and distributed.is_nccl_available()
        return bool(has_nccl and torch.cuda.is_available())


def _common_store(distributed: Any, meeting: CPUGroup, timeout: timedelta) -> Any:
    """Return PyTorch's store, which listens in rank 0 at a port that the kernel chooses."""
    from raycompat import util

    address = np.zeros(_ADDRESS_BYTES, np.uint8)
    options = {"timeout": timeout, "wait_for_workers": False}
    store = None
    if meeting.rank == 0:
        host = util.get_node_ip_address()
        store = distributed.TCPStore(host, 0, meeting.world_size, is_master=True, **options)
        text = f"{store.port} {host}".encode()
        address[: len(text)] = np.frombuffer(text, np.uint8)
    meeting.broadcast([address])
    if store is None:
        port, _, host = address.tobytes().rstrip(b"\0").decode().partition(" ")
        store = distributed.TCPStore(
            host, int(port), meeting.world_size, is_master=False, **options
        )
    return distributed.PrefixStore(meeting.group_name, store)


def _reduction(op: ReduceOp) -> Any:
    distributed = imported("raycompat.util.collective").distributed
    return getattr(distributed.ReduceOp, _REDUCTIONS[op])
