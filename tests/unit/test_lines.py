"""Lines of calls that wait: what is free is offered to those that it may be enough for, in turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import InGroup
from raycompat._scheduler.lines import Line, Lines


def shape(owner: str = "a", strategy: object = "DEFAULT", **units: int):
    return owner, ResourceSet(units), strategy


class Machine:
    """Serve lines from what one node has free, as the dispatcher does, and count the lines looked at."""

    def __init__(self, **free: int) -> None:
        self.lines, self.free, self.round = Lines(), free, 0
        self.of: dict[str, Line] = {}
        self.num_looks = 0

    def add(self, key: str, each: tuple) -> None:
        self.of[key] = self.lines.add(key, "task", each)

    def serve(self) -> list[str]:
        self.round += 1
        started = []
        while (
            line := self.lines.next(None, lambda name: self.free.get(name, 0), self.round)
        ) is not None:
            self.num_looks += 1
            needs = line.shape[1].items()
            lacking = next((n for n, units in needs if units > self.free.get(n, 0)), None)
            if lacking is not None:
                self.lines.lacks(line, lacking)
                continue
            for name, units in needs:
                self.free[name] -= units
            started.append(line.first)
            self.lines.remove_started(line.first, line)
        return started


def test_lines_that_lack_what_is_not_free_are_not_looked_at():
    machine = Machine(CPU=0)
    for number in range(1000):
        machine.add(f"call-{number}", shape(CPU=10 + number % 500))
    assert machine.serve() == []
    machine.num_looks = 0
    machine.free["CPU"] = 9
    assert machine.serve() == []
    assert machine.num_looks == 0
    machine.free["CPU"] = 11
    assert machine.serve() == ["call-0"]
    assert machine.num_looks == 2  # the second is that of the next call in its line


def test_thousands_of_shapes_that_need_as_much_of_what_is_scarce_cost_one_look_each():
    machine = Machine(CPU=1, memory=10**9)
    for number in range(4000):
        machine.add(f"call-{number}", shape(CPU=1, memory=1 + number))
    machine.serve()
    machine.num_looks = 0
    for _ in range(100):
        machine.free["CPU"] += 1
        assert len(machine.serve()) == 1
    assert machine.num_looks <= 2 * 100


def test_lines_take_turns():
    machine = Machine(CPU=0)
    for number in range(3):
        for owner in "ab":
            machine.add(f"{owner}{number}", shape(owner, CPU=1 + (owner == "b")))
    machine.serve()
    order = []
    for _ in range(6):
        machine.free["CPU"] = 2
        order += machine.serve()
        machine.free["CPU"] = 0
    assert sorted(order) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert order.index("b0") < order.index("a2")


def test_a_call_that_is_taken_out_leaves_nothing():
    lines = Lines()
    line = lines.add("call", "task", shape(CPU=1))
    in_group = lines.add("other", "lease", shape(strategy=InGroup("group"), CPU=1))
    assert lines.sites() == [None, "group"]
    lines.remove("call", line)
    lines.remove("other", in_group)
    assert not len(lines)
    assert lines.sites() == []


class CountingKey(str):
    """A key that counts how often it is compared."""

    num_compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountingKey.num_compared += 1
        return str.__eq__(self, other)


def test_no_removal_searches_a_line():
    lines, keys = Lines(), [CountingKey(f"call-{number}") for number in range(10_000)]
    for key in keys:
        line = lines.add(key, "task", shape(CPU=1))
    CountingKey.num_compared = 0
    for key in reversed(keys):
        lines.remove(key, line)
    assert not len(lines)
    assert CountingKey.num_compared <= len(keys)


def test_some_are_others_each_time_until_all_were_returned():
    lines = Lines()
    for number in range(10):
        lines.add(f"call-{number}", "task", shape(CPU=number + 1))
    seen = [line.first for _ in range(4) for line in lines.some(3)]
    assert set(seen[:10]) == {f"call-{number}" for number in range(10)}


AMOUNTS = st.fixed_dictionaries({"CPU": st.integers(0, 4), "memory": st.integers(0, 4)})


@given(calls=st.lists(AMOUNTS, max_size=30), released=st.lists(AMOUNTS, max_size=10))
def test_nothing_waits_that_fits(calls: list[dict[str, int]], released: list[dict[str, int]]):
    machine = Machine(CPU=0, memory=0)
    waiting = {}
    for number, units in enumerate(calls):
        waiting[f"call-{number}"] = each = shape(**units)
        machine.add(f"call-{number}", each)
    for units in [{"CPU": 0, "memory": 0}, *released]:
        for name, count in units.items():
            machine.free[name] += count
        for key in machine.serve():
            del waiting[key]
        assert not [each for each in waiting.values() if each[1].fits_in(ResourceSet(machine.free))]
    assert sorted(key for line in machine.lines for key in line.keys) == sorted(waiting)


def test_a_line_that_cannot_be_placed_does_not_hold_up_others():
    """As when it waits for one busy node: all that fits elsewhere starts in one round."""
    lines = Lines()
    stuck = lines.add("stuck", "task", shape("a", CPU=10))
    for number in range(5):
        lines.add(f"call-{number}", "task", shape("b", CPU=10))
    for round_ in (1, 2):
        looks, started = [], []
        while (line := lines.next(None, lambda name: 1000, round_)) is not None:
            looks.append(line)
            if line is stuck:
                lines.try_again(line, round_)
            else:
                started.append(line.first)
                lines.remove_started(line.first, line)
        assert looks.count(stuck) == 1
        assert len(started) == (5 if round_ == 1 else 0)
