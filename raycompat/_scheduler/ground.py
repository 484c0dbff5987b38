"""What all parts of the scheduler stand on: Dask, the records of the cluster, and signals.

Nothing here decides. A part reads the records, acts by `Ground.dask`, and gets from its constructor the
other parts that it asks or tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from raycompat._scheduler.actor_directory import ActorDirectory
from raycompat._scheduler.call_table import CallTable
from raycompat._scheduler.drains import Drains
from raycompat._scheduler.events import Events
from raycompat._scheduler.functions import Functions
from raycompat._scheduler.job_table import JobTable
from raycompat._scheduler.ledger import Ledger
from raycompat._scheduler.next_change import NextChange
from raycompat._scheduler.next_round import NextRound
from raycompat._scheduler.node_table import NodeTable
from raycompat._scheduler.owners import Owners
from raycompat._scheduler.watcher import Watcher

if TYPE_CHECKING:
    from raycompat._dask.scheduler import DaskScheduler


@dataclass
class Ground:
    """The records and signals of one scheduler."""

    dask: DaskScheduler
    ledger: Ledger
    functions: Functions
    calls: CallTable
    actors: ActorDirectory
    jobs: JobTable
    nodes: NodeTable
    drains: Drains
    owners: Owners
    events: Events
    next_change: NextChange
    next_round: NextRound
    #: Who hears what happens.
    watcher: Watcher


def ground_of(dask: DaskScheduler) -> Ground:
    """Return the ground of a scheduler that knows nothing yet."""
    ledger, functions = Ledger(), Functions()
    calls, nodes = CallTable(functions), NodeTable(dask, ledger)
    return Ground(
        dask=dask,
        ledger=ledger,
        functions=functions,
        calls=calls,
        actors=ActorDirectory(),
        jobs=JobTable(),
        nodes=nodes,
        drains=Drains(dask, nodes),
        owners=Owners(dask, calls),
        events=Events(),
        next_change=NextChange(),
        next_round=NextRound(),
        watcher=Watcher(),
    )
