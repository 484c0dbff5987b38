"""What raycompat changes in Dask's scheduler itself. Each change can be taken back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from distributed.active_memory_manager import ReduceReplicas, SuggestionGenerator
from distributed.comm.addressing import get_address_host
from distributed.comm.core import Comm

from raycompat._dask.scheduler import NOWHERE, is_our_client
from raycompat._dask.streams import TakeBack

if TYPE_CHECKING:
    from distributed import Scheduler


class _ReduceReplicasElsewhere(ReduceReplicas):
    """Dask's policy that removes surplus copies, except the copy on a value's bound worker.

    A value that was put lives as long as its owner's node, so it must not move to another.
    """

    def run(self) -> SuggestionGenerator:
        """Suggest the same removals as Dask's policy, on other workers."""
        for suggestion in super().run():
            home = suggestion.ts.worker_restrictions or ()
            others = {each for each in suggestion.ts.who_has or () if each.address not in home}
            yield suggestion._replace(candidates=others)


def keep_values_at_home(scheduler: Scheduler) -> TakeBack:
    """Keep Dask's memory manager from removing copies on the workers to which values are bound.

    Values of other users are bound to no worker, so for these nothing changes.
    """
    manager = scheduler.extensions.get("amm")
    policies = manager.policies if manager is not None else set()
    replaced = [each for each in policies if type(each) is ReduceReplicas]
    ours = [_ReduceReplicasElsewhere() for _ in replaced]

    def replace(before: list[Any], after: list[Any]) -> None:
        for policy in before:
            policies.discard(policy)
        for policy in after:
            manager.add_policy(policy)

    replace(replaced, ours)
    return lambda: replace(ours, replaced)


class _Unrunnable(dict[Any, float]):
    """Dask's tasks that no worker can run, without the parked ones where Dask looks for old ones."""

    def items(self) -> Any:
        """Return the tasks that wait in vain, and since when."""
        return [
            (task, since)
            for task, since in super().items()
            if not NOWHERE.issubset(task.worker_restrictions or ())
        ]


def let_calls_wait(scheduler: Scheduler) -> TakeBack:
    """Let parked tasks wait longer than ``distributed.scheduler.no-workers-timeout``."""
    scheduler.unrunnable = _Unrunnable(scheduler.unrunnable)

    def take_back() -> None:
        scheduler.unrunnable = dict(scheduler.unrunnable)

    return take_back


def scale_for(scheduler: Scheduler, nodes_wanted: Callable[[], int]) -> TakeBack:
    """Let Dask's adaptive scaling ask for workers beyond the present ones too.

    Dask itself sees that the tasks of calls and actors run, and does not close their workers.
    """
    handler = scheduler.handlers["adaptive_target"]

    async def adaptive_target(target_duration: object = None) -> int:
        target: int = scheduler.adaptive_target(target_duration)
        wanted = nodes_wanted()
        return max(target, len(scheduler.workers) + wanted) if wanted else target

    scheduler.handlers["adaptive_target"] = adaptive_target

    def take_back() -> None:
        scheduler.handlers["adaptive_target"] = handler

    return take_back


def replace_method(
    scheduler: Scheduler, name: str, replacement: Callable[..., Awaitable[object]]
) -> TakeBack:
    """Replace a coroutine method of the scheduler, and the handler of the request with its name.

    The replacement is called with the original, a description of who asks, and the arguments.
    """
    original = getattr(scheduler, name)
    handlers = [each for each, handler in scheduler.handlers.items() if handler == original]

    async def method(*arguments: object, **fields: object) -> Any:
        return await replacement(original, "the scheduler's process", *arguments, **fields)

    async def handle(comm: Comm, **fields: object) -> Any:
        return await replacement(original, _who_asks(scheduler, comm), **fields)

    setattr(scheduler, name, method)
    scheduler.handlers.update(dict.fromkeys(handlers, handle))

    def take_back() -> None:
        delattr(scheduler, name)
        scheduler.handlers.update(dict.fromkeys(handlers, original))

    return take_back


def _who_asks(scheduler: Scheduler, comm: Comm) -> str:
    """Describe the program at the other end of a connection.

    A client sends requests by other connections than the one that names it. It is known if it is the
    only client of its host.
    """
    address = comm.peer_address
    if address in scheduler.workers:
        return "itself"
    host = get_address_host(address)
    clients = [
        name
        for name, each in scheduler.client_comms.items()
        if get_address_host(each.comm.peer_address) == host
    ]
    others = [name for name in clients if not is_our_client(name)]
    who = f"the client {others[0]}" if len(others) == 1 else "a program"
    return f"{who} at {address}"
