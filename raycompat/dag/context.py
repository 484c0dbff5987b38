"""`DAGContext`: the settings of compiled graphs in this process."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import ClassVar


def _whole(name: str, default: int) -> int:
    return field(default_factory=lambda: int(float(_setting(name, str(default)))))


def _setting(name: str, default: str) -> str:
    return os.environ.get(f"RAY_CGRAPH_{name}", default)


@dataclass
class DAGContext:
    """The default settings of compiled graphs: `DAGNode.experimental_compile` reads them.

    Change the attributes of `get_current`, or set ``RAY_CGRAPH_<attribute>`` in the environment before
    the program starts.

    Attributes
    ----------
    submit_timeout : int
        Seconds to wait in `CompiledDAG.execute`. By default 10.
    get_timeout : int
        Seconds to wait for a result. By default 10.
    teardown_timeout : int
        Seconds to wait in `CompiledDAG.teardown`. By default 30.
    read_iteration_timeout : float
        At most `get_timeout`; by default 0.1. It has no effect: a process watches all its connections
        together.
    buffer_size_bytes : int
        By default 1,000,000. It has no effect: each value gets as much memory as it needs.
    max_inflight_executions : int
        The number of executions whose results were not fetched yet. By default 10.
    max_buffered_results : int
        The number of results that may wait in the driver because later ones were fetched first. By
        default 1000.
    overlap_gpu_communication : bool
        By default False. True is refused: compiled graphs have no communicators.

    Examples
    --------
    >>> from raycompat.dag import DAGContext
    >>> DAGContext.get_current().max_inflight_executions
    10

    Notes
    -----
    Ray source: ``ray.dag.DAGContext``, 2.60.0. Differs from Ray as the attributes say.
    """

    submit_timeout: int = _whole("submit_timeout", 10)
    get_timeout: int = _whole("get_timeout", 10)
    teardown_timeout: int = _whole("teardown_timeout", 30)
    read_iteration_timeout: float = field(
        default_factory=lambda: float(_setting("read_iteration_timeout_s", "0.1"))
    )
    buffer_size_bytes: int = _whole("buffer_size_bytes", 1_000_000)
    max_inflight_executions: int = _whole("max_inflight_executions", 10)
    max_buffered_results: int = _whole("max_buffered_results", 1000)
    overlap_gpu_communication: bool = field(
        default_factory=lambda: _setting("overlap_gpu_communication", "0").lower() in ("1", "true")
    )

    _current: ClassVar[DAGContext | None] = None

    def __post_init__(self) -> None:
        if self.read_iteration_timeout > self.get_timeout:
            raise ValueError(
                f"read_iteration_timeout={self.read_iteration_timeout!r} is longer than "
                f"get_timeout={self.get_timeout!r}: make it shorter."
            )

    @staticmethod
    def get_current() -> DAGContext:
        """Return the settings of this process."""
        if DAGContext._current is None:
            DAGContext._current = DAGContext()
        return DAGContext._current
