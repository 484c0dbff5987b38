"""`RayBackend`: joblib's backend whose workers are the processes of a `Pool`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from joblib._parallel_backends import (
    FallbackToBackend,
    MultiprocessingBackend,
    ParallelBackendBase,
    SequentialBackend,
)
from joblib.parallel import BatchedCalls

import raycompat as ray
from raycompat import _api
from raycompat._caller import current_session
from raycompat.object_ref import ObjectRef
from raycompat.util.multiprocessing import Pool

#: Arguments of at least this many bytes are stored once, and calls get a reference.
_STORED_FROM_BYTES = 100 * 1024


class RayBackend(MultiprocessingBackend):
    """Runs joblib's calls in the processes of a cluster.

    Parameters
    ----------
    nesting_level, inner_max_num_threads : optional
        As in joblib.
    ray_remote_args : dict, optional
        Options for the actors that run the calls, as for `remote`.

    Notes
    -----
    Ray source: ``ray.util.joblib.ray_backend.RayBackend``, 2.60.0. As in Ray, ``n_jobs=-1`` means all
    CPUs of the cluster, and an argument that many calls share is stored once.
    """

    #: For ``return_as="generator"``: the pool reports each result when it is there.
    supports_return_generator = True

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        ray_remote_args: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.ray_remote_args = ray_remote_args
        #: The stored arguments by their ids; the arguments themselves keep the ids valid.
        self._stored: dict[int, tuple[Any, ObjectRef[Any]]] = {}
        super().__init__(
            nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads, **kwargs
        )

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many calls run at the same time for joblib's `n_jobs`."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 has no meaning: give 1 or more, or -1 for all CPUs.")
        if n_jobs is None:
            return 1
        if n_jobs > 0:
            return n_jobs
        if current_session.get() is None:
            ray.init()
        num_cpus = int(_api.cluster_resources().get("CPU", 1))
        return max(num_cpus + 1 + n_jobs, 1)

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: str | None = None,
        require: str | None = None,
        ray_remote_args: Mapping[str, Any] | None = None,
        **memmapping_pool_args: Any,
    ) -> int:
        """Start the pool, and return how many calls run at the same time."""
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        options = self.ray_remote_args if ray_remote_args is None else ray_remote_args
        self._pool = Pool(n_jobs, ray_remote_args=options)
        self.parallel = parallel
        return n_jobs

    def submit(self, func: Any, callback: Callable[[Any], Any] | None = None) -> Any:
        """Start one batch of calls."""
        if isinstance(func, BatchedCalls):
            func = _StoredCalls(
                [
                    (
                        function,
                        [self._store(value) for value in args],
                        {name: self._store(value) for name, value in kwargs.items()},
                    )
                    for function, args, kwargs in func.items
                ],
                (func._backend, func._n_jobs),
            )
        return super().submit(func, callback)

    def _store(self, value: Any) -> Any:
        """Return a reference to a large value, always the same one; a small value as it is."""
        size = getattr(value, "nbytes", None)
        if not isinstance(size, int):
            size = sys.getsizeof(value)
        if size < _STORED_FROM_BYTES or isinstance(value, ObjectRef):
            return value
        if id(value) not in self._stored:
            self._stored[id(value)] = value, _api.put(value)
        return self._stored[id(value)][1]

    def get_nested_backend(self) -> tuple[ParallelBackendBase, int | None]:
        """Return joblib's own backend, for calls that are parallel themselves."""
        backend: tuple[ParallelBackendBase, int | None] = super().get_nested_backend()
        return backend

    def terminate(self) -> None:
        """End the pool, and drop the stored arguments."""
        super().terminate()
        self._stored.clear()


class _StoredCalls(BatchedCalls):
    """A batch of calls with references among their arguments."""

    def __call__(self) -> Any:
        self.items: list[Any] = [
            (
                function,
                [_loaded(value) for value in args],
                {name: _loaded(value) for name, value in kwargs.items()},
            )
            for function, args, kwargs in self.items
        ]
        return super().__call__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _StoredCalls, (self.items, (self._backend, self._n_jobs))


def _loaded(value: Any) -> Any:
    return _api.get(value) if isinstance(value, ObjectRef) else value
