"""Random programs say on a cluster what they say in plain Python, and leave nothing.

``RAYCOMPAT_PROGRAMS=2000`` runs that many, new ones each time (``make nightly``). A failure is printed
with what repeats it: ``@reproduce_failure``, and the smallest program that still fails.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator

import pytest
from _left_over import LeftOver
from _programs import (
    CLUSTER,
    Array,
    Body,
    Boxed,
    Call,
    Digest,
    Drop,
    DropActor,
    Empty,
    Forget,
    Get,
    Give,
    HandOver,
    Items,
    Keep,
    Local,
    Method,
    Named,
    NewActor,
    Number,
    Program,
    Put,
    Python,
    Ref,
    Show,
    Stream,
    Through,
    Wait,
)
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import raycompat as ray

pytestmark = pytest.mark.nightly

#: How many programs; set, they are other ones each time.
NUM_PROGRAMS = int(os.environ.get("RAYCOMPAT_PROGRAMS", "100"))
IS_NIGHTLY = "RAYCOMPAT_PROGRAMS" in os.environ
#: Seconds until what a program leaves counts as left over.
LEFT_S = 10.0

INDEX = st.integers(0, 9)
FILL = st.integers(-3, 3)
#: 12,800 integers have 100 KiB: around it, well below, and well above.
LENGTH = st.sampled_from([3, 12_700, 12_780, 12_800, 20_000, 60_000])
SPEC = st.recursive(
    st.one_of(
        st.builds(Ref, INDEX),
        st.builds(Number, FILL),
        st.builds(Local, INDEX),
        st.builds(Array, LENGTH, FILL),
    ),
    lambda inner: st.one_of(
        st.builds(Items, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Named, st.lists(inner, max_size=2).map(tuple)),
        st.builds(Boxed, inner),
        st.builds(Digest, inner, st.booleans()),
    ),
    max_leaves=4,
)
SPECS = st.lists(SPEC, max_size=3).map(tuple)


def bodies(level: int) -> st.SearchStrategy[Body]:
    return st.builds(
        Body,
        st.lists(steps(level), max_size=7 - 2 * level).map(tuple),
        st.lists(SPEC, min_size=1, max_size=3).map(tuple),
        st.one_of(st.none(), st.none(), st.none(), FILL),
    )


def steps(level: int) -> st.SearchStrategy[object]:
    """What programs do; those inside of `level` others call no further ones from 2 on."""
    plain = [
        st.builds(Put, SPEC),
        st.builds(Drop, INDEX),
        st.builds(Forget, INDEX),
        st.builds(Get, INDEX),
        st.builds(Put, SPEC),
        st.builds(Get, INDEX),
        st.builds(Wait, INDEX, st.sampled_from([None, 0, 0.001])),
    ]
    if level == 2:
        return st.one_of(plain)
    inner = st.deferred(lambda: bodies(level + 1))
    return st.one_of(
        *plain,
        st.builds(Call, inner, SPECS),
        st.builds(Call, inner, SPECS),
        st.builds(Call, inner, SPECS),
        st.builds(Stream, inner, SPECS, st.integers(0, 4)),
        st.builds(NewActor, SPEC),
        st.builds(DropActor, INDEX),
        st.builds(Keep, INDEX, st.integers(0, 2), SPEC),
        st.builds(Give, INDEX, st.integers(0, 2)),
        st.builds(Empty, INDEX),
        st.builds(Method, INDEX, inner, SPECS),
        st.builds(HandOver, INDEX, st.integers(0, 2), INDEX),
        st.builds(Through, INDEX, st.integers(0, 2), SPEC),
    )


def shows() -> st.SearchStrategy[Show]:
    return st.builds(Show, st.lists(INDEX, max_size=3).map(tuple))


STEP = st.one_of(steps(0), steps(0), steps(0), steps(0), shows())
PROGRAM = st.builds(
    Program,
    # Long ones, which lists of any length seldom are; the short ones are for shrinking.
    st.one_of(st.lists(STEP, max_size=4), st.lists(STEP, min_size=10, max_size=25)).map(tuple),
    st.sampled_from([99, 5, 1, 0, 99]),
    st.integers(0, 9),
)


class Home:
    """The cluster that the programs run on; started again after a program that failed."""

    def __init__(self, start: Callable[[], None]) -> None:
        self.num_done = 0
        self.began = time.monotonic()
        self._start = start
        self._left_over = LeftOver()
        start()

    def _left(self) -> dict[str, object]:
        left = self._left_over.find()
        # It also lists those of nodes of others that have died on this machine meanwhile.
        store = sys.modules["raycompat._caller.current_session"].get().home.place.store
        ours = [name for name in left.pop("segments", ()) if name.startswith(f"{store}-")]
        return left | ({"segments": ours} if ours else {})

    def check(self, program: Program) -> None:
        expected = program.run(Python())
        try:
            shown = program.run(CLUSTER)
            assert shown == expected
            deadline = time.monotonic() + LEFT_S
            while left := self._left():
                assert time.monotonic() < deadline, f"left over: {left}"
                time.sleep(0.002)  # polling with a deadline: the clean-up is asynchronous
        except BaseException:
            note(f"in plain Python: {expected}")
            # Now, too: looking for a smaller one may take long.
            traceback.print_exc()
            print(f"fails: {program!r}", file=sys.stderr, flush=True)
            # The next ones must not suffer from what this one left.
            ray.shutdown()
            self._start()
            raise
        self.num_done += 1
        if self.num_done % 50 == 0:
            seconds = time.monotonic() - self.began
            line = f"{self.num_done} programs of about {NUM_PROGRAMS}, {seconds:.0f} s"
            print(line, file=sys.stderr, flush=True)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    ray.shutdown()
    options = {"num_cpus": 2, "include_dashboard": False, "configure_logging": False}
    yield Home(lambda: ray.init(**options))
    ray.shutdown()


#: Seconds. A night's programs at one a second, and what it takes to find the smallest that fails.
@pytest.mark.timeout(900 + 2 * NUM_PROGRAMS)
@settings(
    max_examples=NUM_PROGRAMS,
    deadline=None,
    derandomize=not IS_NIGHTLY,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
@given(program=PROGRAM)
def test_a_random_program_says_what_it_says_in_plain_python_and_leaves_nothing(
    home: Home, program: Program
) -> None:
    home.check(program)
