"""Runs histories of a simulated cluster: ``simulate.py 0 200``, or ``simulate.py --replay 17``.

``simulate.py --record FILE`` replays what a real scheduler has heard.

Set ``PYTHONHASHSEED=0``, so that a seed means the same history in every process.

A history that breaks an invariant is shrunk to the steps that matter, and printed.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import virtual_time  # noqa: F401  (first: Dask reads the clock when it is imported)

# isort: split
import mutations
import records
from histories import Outcome, Plan, in_world, plan_of, run, shrink
from world import World


def _explain(seed: int, plan: Plan, outcome: Outcome) -> str:
    """Return a text about a history that failed: its shortest form, and each step of it."""
    shortest = shrink(plan, lambda each: run(each).error)
    again = run(shortest)
    steps = "\n".join(
        f"  {number}: {step.kind} after {step.after_s:.4f} s"
        for number, step in enumerate(shortest.steps)
    )
    history = "\n".join(again.history)
    return (
        f"The history of the seed {seed} breaks an invariant:\n{outcome.error}\n\n"
        f"It still fails with {len(shortest.steps)} of {len(plan.steps)} steps:\n{steps}\n"
        f"{again.error}\n\n{history}\n\nTo see it again: make replay SEED={seed}"
    )


def _run_all(seeds: range) -> int:
    num_steps = num_messages = num_events = 0
    begin_s = virtual_time.cpu_seconds()
    for seed in seeds:
        plan = plan_of(str(seed))
        outcome = run(plan)
        num_steps += outcome.num_steps
        num_messages += outcome.num_messages
        num_events += outcome.num_events
        if outcome.error:
            print(_explain(seed, plan, outcome))
            return 1
    took_s = virtual_time.cpu_seconds() - begin_s
    print(
        f"{len(seeds)} histories hold: {num_events} events, {num_messages} of them messages, "
        f"{num_steps} to the scheduler; {num_events / took_s:,.0f} events a second of CPU time"
    )
    return 0


def _replay(seed: int) -> int:
    plan = plan_of(str(seed))
    outcome = run(plan)
    print("\n".join(outcome.history))
    if not outcome.error:
        print("All invariants hold.")
        return 0
    print(_explain(seed, plan, outcome))
    return 1


def _replay_record(path: Path) -> int:
    header, events = records.read(path)
    if not header["is_ordered"]:
        print("Recorded without PYTHONHASHSEED=0: the scheduler may decide otherwise here.")
    left_out: Counter[str] = Counter()

    async def play(world: World) -> None:
        replay = records.Replay(world, header)
        try:
            await replay.play(events)
        finally:
            left_out.update(replay.left_out)

    outcome = in_world(path.name, play)
    print("\n".join(outcome.history))
    print(f"{outcome.num_steps} messages were replayed.")
    if left_out:
        print("Left out: " + ", ".join(f"{count} {op}" for op, count in left_out.items()))
    print(outcome.error or "All invariants hold.")
    return bool(outcome.error)


def _try_mutations(seeds: range) -> int:
    """Put each fault into the code; print after how many histories it is found."""
    missed = 0
    for name, mutation in mutations.MUTATIONS.items():
        with mutation():
            found = next((seed for seed in seeds if run(plan_of(str(seed))).error), None)
        missed += found is None
        print(
            f"{name}: {'not found' if found is None else f'found by the seed {found}'}", flush=True
        )
    print(f"{len(mutations.MUTATIONS) - missed} of {len(mutations.MUTATIONS)} found")
    return missed


def _try_races() -> int:
    """Put each race of the past back; print what its history breaks."""
    missed = 0
    for name, (race, seed) in mutations.RACES.items():
        with race():
            error = run(plan_of(str(seed), has_callers=False)).error
        missed += not error
        print(f"{name}: {error or 'not found'}")
    return missed


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("last", type=int, nargs="?", default=200)
    parser.add_argument("--replay", metavar="SEED", type=int)
    parser.add_argument("--record", metavar="FILE", type=Path)
    parser.add_argument("--mutations", action="store_true")
    parser.add_argument("--races", action="store_true", help="put the races of the past back")
    parser.add_argument("--fault", choices=mutations.MUTATIONS, help="put this fault into the code")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        parser.error(
            "set PYTHONHASHSEED=0: sets of strings have another order in each process else"
        )
    logging.disable(logging.WARNING)
    run(replace(plan_of("0"), steps=()))  # imports what is imported late
    gc.freeze()
    if arguments.replay is not None:
        return _replay(arguments.replay)
    if arguments.record is not None:
        fault = mutations.MUTATIONS.get(arguments.fault, nullcontext)
        with fault():
            return _replay_record(arguments.record)
    if arguments.races:
        return _try_races()
    seeds = range(arguments.first, arguments.last)
    return _try_mutations(seeds) if arguments.mutations else _run_all(seeds)


if __name__ == "__main__":
    sys.exit(main())
