"""Groups of PyTorch's process groups, on CPU tensors: what the backend nccl does on GPUs."""

from __future__ import annotations

import pytest

import raycompat as ray
from raycompat.util.collective import types
from raycompat.util.collective.types import Backend, ReduceOp

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("cluster")


def member():
    """Return a class of actors with a group of PyTorch's gloo, in place of nccl."""
    from raycompat.util.collective.collective_group.torch_collective_group import TorchGroup

    class Group(TorchGroup):
        device = "cpu"

        def _form(self, distributed, store, timeout):
            return distributed.ProcessGroupGloo(store, self.rank, self.world_size, timeout)

        @classmethod
        def backend(cls):
            return Backend.NCCL

        @classmethod
        def check_backend_availability(cls):
            return True

    @ray.remote(num_cpus=0)
    class Member:
        def __init__(self, rank):
            self.rank, self.group = rank, Group(2, rank, "torch")

        def reduced(self):
            everywhere, at_one = (
                torch.full((3,), self.rank + 1.0),
                torch.full((3,), self.rank + 2.0),
            )
            self.group.allreduce([everywhere])
            options = types.ReduceOptions(reduceOp=ReduceOp.PRODUCT, root_rank=1)
            self.group.reduce([at_one], options)
            return everywhere.tolist(), at_one.tolist()

        def copied(self):
            tensor, gathered = torch.full((2,), float(self.rank)), [torch.zeros(2), torch.zeros(2)]
            self.group.allgather([gathered], [tensor])
            self.group.broadcast([tensor], types.BroadcastOptions(root_rank=1))
            self.group.barrier()
            return [each.tolist() for each in gathered], tensor.tolist()

        def scattered(self):
            output, tensors = torch.zeros(1), [torch.tensor([1.0]), torch.tensor([2.0 + self.rank])]
            self.group.reducescatter(
                [output], [tensors], types.ReduceScatterOptions(reduceOp=ReduceOp.MAX)
            )
            return output.tolist()

        def passed(self):
            tensor = torch.full((2,), 5.0 * self.rank)
            if self.rank:
                self.group.send([tensor], types.SendOptions(dst_rank=0))
            else:
                self.group.recv([tensor], types.RecvOptions(src_rank=1))
            return tensor.tolist()

        def refused(self):
            with pytest.raises(RuntimeError, match="takes torch.Tensors on cpu, not ndarray"):
                self.group.allreduce([torch.zeros(1).numpy()])

        def leave(self):
            self.group.destroy_group()

    return Member


def test_each_operation():
    pair = [member().remote(rank) for rank in range(2)]

    def both(name):
        return ray.get([getattr(each, name).remote() for each in pair], timeout=60)

    assert both("reduced") == [([3.0] * 3, [2.0] * 3), ([3.0] * 3, [6.0] * 3)]
    assert both("copied") == [([[0.0, 0.0], [1.0, 1.0]], [1.0, 1.0])] * 2
    assert both("scattered") == [[1.0], [3.0]]
    assert both("passed") == [[5.0, 5.0]] * 2
    both("refused")
    both("leave")
