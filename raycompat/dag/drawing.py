"""A compiled graph as text."""

from __future__ import annotations

from typing import Any

from raycompat.dag.schedule import Plan, Slot


def as_text(plan: Plan) -> str:
    """Return a line for each input, each call in the order of its actor, and each result."""
    names = {each.slot: _input_name(each.key) for each in plan.inputs}
    lines = [
        f"{names[each.slot]}: value {each.slot} -> {_ranks(each.readers)}" for each in plan.inputs
    ]
    for rank, steps in sorted(plan.steps.items()):
        actor = plan.actors[rank - 1]
        lines.append(f"actor {rank}: {actor!r}")
        for step in steps:
            for output in step.outputs:
                index = "" if output.index is None else f"[{output.index}]"
                names[output.slot] = f"actor {rank}.{step.method}{index} (value {output.slot})"
            args = ", ".join(_argument(arg) for arg in step.args)
            kwargs = "".join(f", {name}={value!r}" for name, value in step.kwargs.items())
            values = ", ".join(
                f"value {output.slot} -> {_ranks(output.readers)}" for output in step.outputs
            )
            lines.append(f"    {step.method}({args}{kwargs}): {values}")
    lines.append("results: " + ", ".join(names[slot] for slot in plan.results))
    return "\n".join(lines)


def _input_name(key: int | str | None) -> str:
    return "input" if key is None else f"input[{key!r}]"


def _argument(arg: Any) -> str:
    return f"value {arg.number}" if isinstance(arg, Slot) else repr(arg)


def _ranks(readers: tuple[int, ...]) -> str:
    named = ["driver" if rank == 0 else f"actor {rank}" for rank in readers]
    return ", ".join(named) or "this actor"
