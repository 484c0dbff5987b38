"""`ray.util.collective` with the backend gloo: operations of groups of actors."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("cluster")

#: Each test's own name of a group: members of a former one may still be ending.
_names = (f"group{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def collective(ray):
    if ray.__name__ == "ray":
        pytest.importorskip("torch", reason="Ray's backend gloo is torch's")
    return importlib.import_module(ray.__name__ + ".util.collective")


@pytest.fixture
def group_of(ray, collective, cluster):
    """A factory of groups: `group_of(size)` returns a function that has all members run a function."""
    made = []

    def make(size, declared=False, name=None, timeout_ms=30000):
        name = next(_names) if name is None else name

        @ray.remote(num_cpus=0)
        class Member:
            def join(self, module, rank):
                self.collective = importlib.import_module(module)
                self.types = importlib.import_module(module + ".types")
                if rank is not None:
                    self.collective.init_collective_group(size, rank, "gloo", name, timeout_ms)

            def run(self, function):
                return function(self.collective, self.types, name)

        members = [Member.remote() for _ in range(size)]
        made.extend(members)
        if declared:
            ray.get([each.join.remote(collective.__name__, None) for each in members])
            collective.create_collective_group(
                members, size, list(range(size)), "gloo", name, timeout_ms
            )
        else:
            ray.get(
                [each.join.remote(collective.__name__, rank) for rank, each in enumerate(members)]
            )

        def run(function, only=None):
            chosen = members if only is None else [members[rank] for rank in only]
            return ray.get([each.run.remote(function) for each in chosen], timeout=50)

        return run

    yield make
    for member in made:
        ray.kill(member)


# Names


def test_names_of_backends_and_reductions(collective):
    types = importlib.import_module(collective.__name__ + ".types")
    assert types.Backend("gloo") == types.Backend("GLOO") == types.Backend("torch_gloo") == "GLOO"
    assert types.Backend("nccl") == types.Backend.NCCL == "NCCL"
    with pytest.raises(ValueError, match="mpi"):
        types.Backend("mpi")
    assert [(each.name, each.value) for each in types.ReduceOp] == [
        ("SUM", 0),
        ("PRODUCT", 1),
        ("MIN", 2),
        ("MAX", 3),
    ]
    assert types.AllReduceOptions().reduceOp is types.ReduceOp.SUM
    assert types.BroadcastOptions().root_rank == 0


def test_which_backends_work(collective):
    assert collective.gloo_available()
    assert collective.is_backend_available("gloo")
    if not Path("/dev/nvidiactl").exists():
        assert not collective.nccl_available()
    assert not collective.is_backend_available("mpi")


# Operations


@pytest.mark.parametrize("size", [1, 2, 3])
def test_allreduce_sums_in_place(group_of, size):
    def work(collective, types, name):
        rank = collective.get_rank(name)
        values = np.arange(10, dtype=np.float32) + rank
        assert collective.allreduce(values, name) is None
        return values

    expected = size * np.arange(10) + sum(range(size))
    for values in group_of(size)(work):
        np.testing.assert_array_equal(values, expected)


def test_all_reductions(group_of):
    def work(collective, types, name):
        rank = collective.get_rank(name)
        found = {}
        for op in types.ReduceOp:
            values = np.array([rank + 1.0, -rank, 2.0])
            collective.allreduce(values, name, op)
            found[op.name] = values.tolist()
        return found

    for found in group_of(2)(work):
        assert found == {
            "SUM": [3.0, -1.0, 4.0],
            "PRODUCT": [2.0, 0.0, 4.0],
            "MIN": [1.0, -1.0, 2.0],
            "MAX": [2.0, 0.0, 2.0],
        }


def test_dtypes_and_shapes(group_of):
    def work(collective, types, name):
        found = []
        for dtype in ("float16", "float32", "float64", "int8", "uint8", "int32", "int64"):
            values = np.full((2, 3), 2, dtype=dtype)
            collective.allreduce(values, name)
            found.append((str(values.dtype), values.shape, values.ravel().tolist()))
        return found

    for found in group_of(2)(work):
        assert [each[1:] for each in found] == [((2, 3), [4] * 6)] * 7


def test_a_large_tensor(group_of):
    def work(collective, types, name):
        values = np.arange(3_000_001, dtype=np.float64)
        collective.allreduce(values, name)
        return bool((values == 2 * np.arange(3_000_001)).all())

    assert group_of(2)(work) == [True, True]


def test_reduce_changes_the_destination_alone(group_of):
    def work(collective, types, name):
        rank = collective.get_rank(name)
        values = np.array([1.0, 10.0]) * (rank + 1)
        collective.reduce(values, 1, name)
        return values.tolist()

    assert group_of(3)(work) == [[1.0, 10.0], [6.0, 60.0], [3.0, 30.0]]


@pytest.mark.parametrize("source", [0, 2])
def test_broadcast(group_of, source):
    def work(collective, types, name):
        values = np.full(5, collective.get_rank(name))
        collective.broadcast(values, source, name)
        return values.tolist()

    assert group_of(3)(work) == [[source] * 5] * 3


def test_allgather_is_in_the_order_of_ranks(group_of):
    def work(collective, types, name):
        rank, size = collective.get_rank(name), collective.get_collective_group_size(name)
        values = np.full((2, 2), rank, dtype=np.float32)
        room = [np.zeros((2, 2), dtype=np.float32) for _ in range(size)]
        collective.allgather(room, values, name)
        return [each.tolist() for each in room]

    expected = [[[rank] * 2] * 2 for rank in range(3)]
    assert group_of(3)(work) == [expected] * 3


def test_reducescatter(group_of):
    def work(collective, types, name):
        rank = collective.get_rank(name)
        values = [np.full(3, 10.0 * part + rank) for part in range(2)]
        out = np.zeros(3)
        collective.reducescatter(out, values, name)
        return out.tolist()

    assert group_of(2)(work) == [[1.0] * 3, [21.0] * 3]


def test_reducescatter_with_another_reduction(group_of):
    def work(collective, types, name):
        rank = collective.get_rank(name)
        out = np.zeros(1)
        collective.reducescatter(out, [np.array([rank + 5.0])] * 2, name, types.ReduceOp.MAX)
        return out.tolist()

    assert group_of(2)(work) == [[6.0], [6.0]]


def test_send_and_recv_keep_the_order(group_of):
    def work(collective, types, name):
        values = np.zeros(4)
        if collective.get_rank(name) == 0:
            for number in range(3):
                collective.send(np.full(4, number, dtype=float), 1, name)
            collective.recv(values, 1, name)
            return values.tolist()
        got = []
        for _ in range(3):
            collective.recv(values, 0, name)
            got.append(values[0])
        collective.send(np.full(4, 9.0), 0, name)
        return got

    # Ray's gloo sends by the default group's ranks: the test's group is the first of its actors.
    assert group_of(2, name="default")(work) == [[9.0] * 4, [0.0, 1.0, 2.0]]


def test_barrier_waits_for_all(ray, group_of):
    @ray.remote(num_cpus=0)
    class Log:
        def __init__(self):
            self.lines = []

        def add(self, line):
            self.lines.append(line)

        def get(self):
            return self.lines

    log = Log.remote()

    def work(collective, types, name):
        ray_module = importlib.import_module(collective.__name__.partition(".")[0])
        if collective.get_rank(name) == 1:
            ray_module.get(log.add.remote("before"))
        collective.barrier(name)
        if collective.get_rank(name) == 0:
            ray_module.get(log.add.remote("after"))

    group_of(2)(work)
    assert ray.get(log.get.remote()) == ["before", "after"]


def test_many_operations_of_all_kinds(group_of):
    def work(collective, types, name):
        rank = collective.get_rank(name)
        total = 0.0
        for number in range(30):
            values = np.full(100 + number, rank + number, dtype=np.float64)
            collective.allreduce(values, name)
            collective.broadcast(values, number % 2, name)
            collective.barrier(name)
            total += values[-1]
        return total

    assert group_of(2)(work) == [sum(2 * number + 1 for number in range(30))] * 2


# Groups


def test_rank_and_size(group_of):
    def work(collective, types, name):
        return (
            collective.get_rank(name),
            collective.get_collective_group_size(name),
            collective.is_group_initialized(name),
            collective.get_rank("another"),
            collective.get_collective_group_size("another"),
            collective.is_group_initialized("another"),
        )

    assert group_of(2)(work) == [(rank, 2, True, -1, -1, False) for rank in range(2)]


def test_the_handle_of_a_group(group_of):
    def work(collective, types, name):
        group = collective.get_group_handle(name)
        return group.rank, group.world_size, group.group_name == name, type(group).backend()

    assert group_of(2)(work) == [(rank, 2, True, "GLOO") for rank in range(2)]


def test_a_declared_group_forms_at_the_first_operation(group_of):
    def work(collective, types, name):
        before = collective.get_rank(name)
        values = np.ones(3)
        collective.allreduce(values, name)
        found = before, collective.get_rank(name), values.tolist()
        collective.destroy_collective_group(name)
        return found

    assert group_of(2, declared=True)(work) == [(-1, rank, [2.0] * 3) for rank in range(2)]


def test_a_group_cannot_be_declared_twice(ray, collective, group_of):
    run = group_of(2, declared=True, name="declared-twice")
    with pytest.raises(RuntimeError):
        group_of(2, declared=True, name="declared-twice")

    def leave(collective, types, name):
        collective.barrier(name)
        collective.destroy_collective_group(name)
        return collective.is_group_initialized(name)

    assert run(leave) == [False, False]


@pytest.mark.parametrize(
    "size, ranks", [(2, [0]), (2, [0, 2]), (2, [1, 1]), (2, [-1, 0]), (0, [0, 1])]
)
def test_numbers_that_do_not_fit_are_errors(ray, collective, size, ranks):
    @ray.remote(num_cpus=0)
    class Member:
        pass

    members = [Member.remote() for _ in range(2)]
    with pytest.raises(RuntimeError):
        collective.create_collective_group(members, size, ranks, "gloo", "wrong-numbers")


def test_a_group_can_be_formed_again(group_of):
    def work(collective, types, name):
        rank = collective.get_rank(name)
        collective.destroy_collective_group(name)
        assert collective.get_rank(name) == -1
        collective.init_collective_group(2, rank, "gloo", name)
        values = np.ones(2)
        collective.allreduce(values, name)
        return values.tolist()

    assert group_of(2, name="default")(work) == [[2.0, 2.0]] * 2


def test_a_second_start_is_an_error(group_of):
    def work(collective, types, name):
        try:
            collective.init_collective_group(2, collective.get_rank(name), "gloo", name)
        except RuntimeError:
            return "refused"

    assert group_of(2)(work) == ["refused"] * 2


def test_a_process_can_be_in_two_groups(group_of):
    def work(collective, types, name):
        rank = collective.get_rank(name)
        collective.init_collective_group(2, rank, "gloo", name + "-second")
        values = np.full(2, float(rank))
        collective.broadcast(values, 1, name + "-second")
        collective.allreduce(values, name)
        return collective.get_rank(name + "-second"), values.tolist()

    assert group_of(2, name="default")(work) == [(0, [2.0, 2.0]), (1, [2.0, 2.0])]


def test_drivers_are_refused(collective):
    for call in (
        lambda: collective.init_collective_group(1, 0, "gloo"),
        lambda: collective.allreduce(np.ones(1)),
        lambda: collective.get_rank(),
        lambda: collective.get_collective_group_size(),
        lambda: collective.destroy_collective_group(),
    ):
        with pytest.raises(RuntimeError):
            call()


def test_operations_of_an_unknown_group_are_errors(group_of):
    def work(collective, types, name):
        errors = []
        for call in (
            lambda: collective.allreduce(np.ones(1), "unknown"),
            lambda: collective.barrier("unknown"),
            lambda: collective.broadcast(np.ones(1), 0, "unknown"),
            lambda: collective.get_group_handle("unknown"),
        ):
            try:
                call()
            except RuntimeError as error:
                errors.append("unknown" in str(error))
        return errors

    assert group_of(1)(work) == [[True] * 4]


def test_destroying_an_unknown_group_does_nothing(group_of):
    def work(collective, types, name):
        return collective.destroy_collective_group("unknown")

    assert group_of(1)(work) == [None]


def test_wrong_tensors_and_ranks_are_errors(group_of):
    def work(collective, types, name):
        kinds = []
        rank = collective.get_rank(name)
        for call in (
            lambda: collective.allreduce([1.0, 2.0], name),
            lambda: collective.broadcast("text", 0, name),
            lambda: collective.allgather(np.ones(2), np.ones(2), name),
            lambda: collective.allgather([], np.ones(2), name),
            lambda: collective.allgather([np.ones(2)], np.ones(2), name),
            lambda: collective.reducescatter(np.ones(2), [np.ones(2)] * 3, name),
            lambda: collective.send(np.ones(2), rank, name),
            lambda: collective.recv(np.ones(2), rank, name),
            lambda: collective.send(np.ones(2), 2, name),
            lambda: collective.recv(np.ones(2), -1, name),
            lambda: collective.broadcast(np.ones(2), 2, name),
            lambda: collective.reduce(np.ones(2), -1, name),
        ):
            try:
                call()
            except Exception as error:
                kinds.append(type(error).__name__)
            else:
                kinds.append("none")
        values = np.ones(2)
        collective.allreduce(values, name)  # none of this has harmed the group
        return kinds, values.tolist()

    kinds = ["RuntimeError"] * 8 + ["ValueError"] * 4
    assert group_of(2)(work) == [(kinds, [2.0, 2.0])] * 2


def test_the_multigpu_forms_are_refused(group_of):
    def work(collective, types, name):
        refused = []
        for call in (
            lambda: collective.allreduce_multigpu([np.ones(1)], name),
            lambda: collective.reduce_multigpu([np.ones(1)], 0, 0, name),
            lambda: collective.broadcast_multigpu([np.ones(1)], 0, 0, name),
            lambda: collective.allgather_multigpu([[np.ones(1)]], [np.ones(1)], name),
            lambda: collective.reducescatter_multigpu([np.ones(1)], [[np.ones(1)]], name),
            lambda: collective.send_multigpu(np.ones(1), 0, 0, name),
            lambda: collective.recv_multigpu(np.ones(1), 0, 0, name),
        ):
            try:
                call()
            except (RuntimeError, NotImplementedError):
                refused.append(True)
        return refused

    assert group_of(1)(work) == [[True] * 7]


def test_a_backend_of_ones_own(ray, collective, group_of):
    base = importlib.import_module(
        collective.__name__ + ".collective_group.base_collective_group"
    ).BaseGroup

    def work(collective, types, name):
        class Mine(base):
            @classmethod
            def backend(cls):
                return "MINE"

            @classmethod
            def check_backend_availability(cls):
                return True

            def allreduce(self, tensor, options):
                tensor[0] += 41

            def barrier(self, options): ...
            def reduce(self, tensor, options): ...
            def allgather(self, tensors, tensor, options): ...
            def broadcast(self, tensor, options): ...
            def reducescatter(self, tensor, tensors, options): ...
            def send(self, tensor, options): ...
            def recv(self, tensor, options): ...

        collective.register_collective_backend("mine", Mine)
        collective.init_collective_group(1, 0, "mine", "own")
        values = np.ones(1)
        collective.allreduce(values, "own")
        refused = False
        try:
            collective.register_collective_backend("MINE", Mine)
        except ValueError:
            refused = True
        return values.tolist(), types.Backend("mine"), refused

    assert group_of(1)(work) == [([42.0], "MINE", True)]


def test_torch_tensors(group_of):
    pytest.importorskip("torch", reason="the operations take its tensors where it is installed")

    def work(collective, types, name):
        import torch

        values = torch.ones(3)
        collective.allreduce(values, name)
        return values.tolist()

    assert group_of(2)(work) == [[2.0] * 3] * 2
