"""Operations among the workers of a run, in training functions."""

from __future__ import annotations

from typing import TypeVar

from raycompat.train import _session

__all__ = ["barrier", "broadcast_from_rank_zero"]

T = TypeVar("T")


def broadcast_from_rank_zero(data: T) -> T:
    """Return the value of rank 0 on all ranks. Every rank must call it equally often.

    Parameters
    ----------
    data : object
        On rank 0 the value, which goes through the process of the driver: a small one. The values of
        the other ranks are ignored.

    Raises
    ------
    TypeError
        When the value cannot be pickled.
    RuntimeError
        Outside a training function.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train import collective
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def agree():
    ...     rank = train.get_context().get_world_rank()
    ...     seed = collective.broadcast_from_rank_zero(100 + rank)
    ...     collective.barrier()  # all have the seed
    ...     return seed
    >>> trainer = DataParallelTrainer(
    ...     agree,
    ...     scaling_config=train.ScalingConfig(num_workers=2),
    ...     run_config=train.RunConfig(storage_path=tempfile.mkdtemp()),
    ... )
    >>> trainer.fit().return_value
    100

    Notes
    -----
    Ray source: ``ray.train.collective.broadcast_from_rank_zero``, 2.60.0. Differs from Ray: a rank
    that ends while others wait here fails the run. So does a wait of more than
    ``RAY_TRAIN_COLLECTIVE_TIMEOUT_S`` seconds, which by default has no limit; the training function
    cannot catch that.
    """
    session = _session.current("collective.broadcast_from_rank_zero")
    value: T = session.meet("broadcast_from_rank_zero", data)
    return value


def barrier() -> None:
    """Wait until all ranks have called this. Every rank must call it equally often.

    Raises
    ------
    RuntimeError
        Outside a training function.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train import collective
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def prepare():
    ...     if train.get_context().get_world_rank() == 0:
    ...         pass  # rank 0 downloads the files, and the others wait
    ...     collective.barrier()
    ...     return "all are ready"
    >>> DataParallelTrainer(
    ...     prepare,
    ...     scaling_config=train.ScalingConfig(num_workers=2),
    ...     run_config=train.RunConfig(storage_path=tempfile.mkdtemp()),
    ... ).fit().return_value
    'all are ready'

    Notes
    -----
    Ray source: ``ray.train.collective.barrier``, 2.60.0. Differs from Ray: see
    `broadcast_from_rank_zero`.
    """
    _session.current("collective.barrier").meet("barrier", None)
