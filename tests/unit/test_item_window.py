"""The limit of items that a generator sends before its consumer has received them."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from raycompat._executor.answers import Answers
from raycompat._executor.item_window import ItemWindow
from raycompat._protocol import item_credit

WINDOW = item_credit.WINDOW_BYTES


def full(num_items: int = 4) -> ItemWindow:
    window = ItemWindow()
    for _ in range(num_items):
        assert window.may_go_on
        window.note_sent(WINDOW // num_items)
    return window


def test_a_full_window_has_room_once_an_item_was_received():
    window = full()
    assert not window.may_go_on
    window.acknowledge(1, True)
    assert window.may_go_on


def test_what_is_heard_twice_or_of_an_earlier_try_gives_no_credit():
    window = full()
    window.acknowledge(1, True)
    window.note_sent(WINDOW // 4)
    for number in (0, 1, 100):
        window.acknowledge(number, True)
    assert not window.may_go_on


def test_nothing_waits_for_a_consumer_that_wants_no_more_or_is_gone():
    unwanted, closed = full(), full()
    unwanted.acknowledge(0, False)
    closed.close()
    assert unwanted.may_go_on
    assert not unwanted.is_wanted
    assert closed.may_go_on
    assert closed.is_closed


def test_threads_and_coroutines_are_woken():
    in_thread, in_loop = full(), full()
    thread = threading.Thread(target=in_thread.wait)
    thread.start()
    in_thread.acknowledge(1, True)
    thread.join(10)
    assert not thread.is_alive()

    async def main() -> None:
        waiting = asyncio.ensure_future(in_loop.wait_in_loop())
        await asyncio.sleep(0)
        threading.Thread(target=in_loop.acknowledge, args=(1, True)).start()
        await asyncio.wait_for(waiting, 10)

    asyncio.run(main())


@given(costs=st.lists(st.integers(200, 3 * WINDOW), min_size=1, max_size=50))
def test_a_consumer_that_reports_in_time_lets_every_generator_end(costs: list[int]):
    """The consumer reports only after `REPORT_BYTES`: the two ends never wait for each other."""
    window, unreported = ItemWindow(), 0
    on_the_way: list[int] = []
    for index, cost in enumerate(costs):
        window.note_sent(cost)
        on_the_way.append(cost)
        if not window.may_go_on:  # all that was sent arrives
            for number, arrived in enumerate(on_the_way, index + 1 - len(on_the_way)):
                unreported += arrived
                if unreported >= item_credit.REPORT_BYTES:
                    unreported = 0
                    window.acknowledge(number + 1, True)
            on_the_way.clear()
        assert window.may_go_on


def test_a_limit_of_items_counts_items_not_bytes():
    window = ItemWindow()
    window.max_items = 2
    window.note_sent(WINDOW)
    assert window.may_go_on
    window.note_sent(1)
    assert not window.may_go_on
    window.acknowledge(1, True)
    assert window.may_go_on


def test_an_acknowledgement_that_another_thread_reads_wakes_the_main_thread():
    woken = []
    executor = SimpleNamespace(generators={}, is_cancelled=lambda key: False)
    mailbox = SimpleNamespace(wake=lambda: woken.append(True))
    caller = SimpleNamespace(windows={}, closed=False, mailbox=mailbox)
    window = Answers(executor, caller, "key", lambda *_: None).open(1)
    window.note_sent(1)
    assert not window.may_go_on
    caller.windows["key"].acknowledge(1, True)
    assert window.may_go_on
    assert woken == [True]
    executor.generators["key"]()  # a cancellation
    assert window.is_closed
    assert woken == [True, True]
