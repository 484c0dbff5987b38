"""Plans of execution: trainings as iterators over batches, ``build_trainer(execution_plan=...)``.

A plan is a function of workers and options; it returns an iterator, of which each item ends a part of
an iteration. Its operators are made of `raycompat.util.iter.LocalIterator`:

1. `ParallelRollouts` lets the algorithm's runners sample, and gives batches.
2. `SelectExperiences`, `ConcatBatches` and `StandardizeFields` change them; `StoreToReplayBuffer` and
   `Replay` keep and draw them again.
3. `TrainOneStep` lets the learners of policies learn from them.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from raycompat._old.rllib.sample_batch import (
    MultiAgentBatch,
    SampleBatch,
    batch_of,
    columns_of_batch,
    concat_samples,
)
from raycompat._old.rllib.workers import FRAGMENT
from raycompat._surface import forms
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.agents.trainers import Agent, defaults_of_trainers
from raycompat.rllib.algorithms.a3c import ActorCriticLearner
from raycompat.rllib.algorithms.dqn import DQNLearner
from raycompat.rllib.algorithms.ppo import PPOLearner
from raycompat.rllib.env.runner import POLICY_ID, EnvRunnerSpec
from raycompat.rllib.replay_buffer import ReplayBuffer
from raycompat.rllib.returns import with_advantages, with_targets
from raycompat.rllib.schedules import scheduled
from raycompat.util.iter import LocalIterator
from raycompat.util.iter._local import _NextValueNotReady
from raycompat.util.iter_metrics import MetricsContext, SharedMetrics

STEPS_SAMPLED_COUNTER = "num_steps_sampled"
STEPS_TRAINED_COUNTER = "num_steps_trained"


class WorkersOfPlan:
    """What a plan sees as its workers.

    Parameters
    ----------
    algorithm : Algorithm
    """

    def __init__(self, algorithm: Any) -> None:
        self.algorithm = algorithm

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the algorithm's runners."""
        if name.startswith("__") or "algorithm" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.algorithm.env_runner_group, name)

    def trainable_policies(self) -> list[str]:
        """Return the names of the policies that learn."""
        return self.trained()

    def trained(self) -> list[str]:
        """Return the names of the policies that learn."""
        return [name for name in self.algorithm.learners if self.algorithm.is_trained(name)]

    def batches(self, together: bool) -> list[Any]:
        """Let all runners sample, and return a batch of each, or one of all."""
        algorithm = self.algorithm
        given = algorithm.config.rollout_fragment_length
        fragment = FRAGMENT if isinstance(given, str) else given
        num_envs = algorithm.config.num_envs_per_env_runner
        samples = algorithm.sample(fragment * num_envs * len(algorithm.env_runner_group))
        found = [self._batch(sample) for sample in samples]
        return [concat_samples(found)] if together else found

    def _batch(self, sample: Any) -> Any:
        batches = {
            name: batch_of(self._prepared(name, columns))
            for name, columns in sample.policies.items()
        }
        if self.algorithm.is_multi_agent:
            return MultiAgentBatch(batches, sample.num_steps)
        return batches[POLICY_ID]

    def _prepared(self, name: str, columns: dict[str, Any]) -> dict[str, Any]:
        """Return columns with the advantages that a policy learns from."""
        learner = self.algorithm.learners.get(name)
        if getattr(getattr(learner, "network", None), "memory", None) is not None:
            raise UnsupportedRayFeatureError(
                "An execution_plan with a network that has a memory",
                "Batches of plans are of single steps",
                "leave use_lstm and use_attention out, or execution_plan",
            )
        if isinstance(learner, PPOLearner):
            return with_advantages(columns, learner.config)
        if isinstance(learner, ActorCriticLearner):
            return with_targets(columns, learner.config.gamma, learner.config.lambda_)
        return columns


def ParallelRollouts(  # noqa: N802
    workers: WorkersOfPlan, *, mode: str = "bulk_sync", num_async: int = 1
) -> LocalIterator[Any]:
    """Return an iterator over batches that the runners have sampled.

    Parameters
    ----------
    workers : WorkersOfPlan
    mode : {"bulk_sync", "async"}, default "bulk_sync"
        One batch of all runners, or one of each.
    num_async : int
        Has no effect: a runner has one request at a time.

    Raises
    ------
    UnsupportedRayFeatureError
        With the mode "raw".
    """
    if mode not in ("bulk_sync", "async"):
        raise UnsupportedRayFeatureError(
            f"ParallelRollouts(mode={mode!r})",
            "Batches are iterated over in the algorithm's process",
            "use 'bulk_sync' or 'async'",
        )

    def generate(_: Any) -> Iterator[Any]:
        while True:
            yield from workers.batches(mode == "bulk_sync")

    def count(batch: Any) -> Any:
        LocalIterator.get_metrics().counters[STEPS_SAMPLED_COUNTER] += batch.count
        return batch

    return LocalIterator(generate, SharedMetrics()).for_each(count)


class SelectExperiences:
    """Keeps the steps of some policies.

    Parameters
    ----------
    policy_ids : list of str, optional
        Default: all that learn.
    local_worker : optional
        Has no effect: the policies that learn are known.
    """

    def __init__(self, policy_ids: Sequence[str] | None = None, local_worker: Any = None) -> None:
        self._policies = None if policy_ids is None else set(policy_ids)

    def __call__(self, samples: Any) -> Any:
        """Return the batch without the steps of other policies."""
        if self._policies is None or not isinstance(samples, MultiAgentBatch):
            return samples
        own = {k: v for k, v in samples.policy_batches.items() if k in self._policies}
        return MultiAgentBatch(own, samples.count)


class ConcatBatches:
    """Joins batches until they have enough steps, for ``combine``.

    Parameters
    ----------
    min_batch_size : int
    count_steps_by : {"env_steps", "agent_steps"}, default "env_steps"
        Which steps are counted.
    """

    def __init__(self, min_batch_size: int, count_steps_by: str = "env_steps") -> None:
        self._least, self._counts_agents = min_batch_size, count_steps_by == "agent_steps"
        self._waiting: list[Any] = []

    def __call__(self, batch: Any) -> list[Any]:
        """Return a list with one batch when there are enough steps, and else none."""
        self._waiting.append(batch)
        kind = "agent_steps" if self._counts_agents else "env_steps"
        if sum(getattr(each, kind)() for each in self._waiting) < self._least:
            return []
        found, self._waiting = concat_samples(self._waiting), []
        return [found]


class StandardizeFields:
    """Lets columns have mean 0 and deviation 1.

    Parameters
    ----------
    fields : list of str
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = list(fields)

    def __call__(self, samples: Any) -> Any:
        """Return the batch with these columns changed."""
        for batch in samples.as_multi_agent().policy_batches.values():
            for name in self._fields:
                column = batch[name]
                deviation = max(1e-4, float(column.std()))
                batch[name] = (column - column.mean()) / deviation
        return samples


@forms.takes_old_options_in_constructor("ray.rllib.execution.replay_buffer.LocalReplayBuffer")
class LocalReplayBuffer:
    """Keeps steps of each policy, and draws from them.

    Parameters
    ----------
    num_shards : int
        Has no effect: there is one buffer.
    learning_starts : int, default 1000
        After how many steps the first ones are drawn.
    capacity, buffer_size : int, default 10000
        How many steps of each policy are kept: its names in different years.
    replay_batch_size : int, default 1
        How many steps are drawn at a time.
    """

    def __init__(
        self,
        num_shards: int = 1,
        learning_starts: int = 1000,
        capacity: int | None = None,
        buffer_size: int | None = None,
        replay_batch_size: int = 1,
    ) -> None:
        self._capacity = capacity or buffer_size or 10_000
        self._least, self._size = learning_starts, replay_batch_size
        self._rng = np.random.default_rng()
        self._buffers: dict[str, ReplayBuffer] = {}
        self._num_added = 0

    def add_batch(self, batch: Any) -> None:
        """Keep the steps of a batch."""
        self._num_added += batch.count
        for name, own in batch.as_multi_agent().policy_batches.items():
            buffer = self._buffers.setdefault(name, ReplayBuffer(self._capacity, self._rng))
            buffer.add({column: np.asarray(values) for column, values in own.items()})

    add = add_batch

    def replay(self, policy_id: str | None = None) -> MultiAgentBatch | None:
        """Return steps drawn at random of each policy, or of one; None before there are enough."""
        if self._num_added < self._least:
            return None
        names = [policy_id] if policy_id else list(self._buffers)
        drawn = {}
        for name in names:
            found = self._buffers[name].sample(self._size)
            unneeded = ("indices", "weights")
            drawn[name] = SampleBatch({k: v for k, v in found.items() if k not in unneeded})
        return MultiAgentBatch(drawn, self._size)

    sample = replay

    def update_priorities(self, prio_dict: Mapping[str, Any]) -> None:
        """Do nothing: steps are drawn with equal chances."""

    def stats(self, debug: bool = False) -> dict[str, Any]:
        """Return how many steps of each policy there are.

        Parameters
        ----------
        debug : bool
            Has no effect.
        """
        found = {f"policy_{name}": {"num_entries": len(b)} for name, b in self._buffers.items()}
        return {"num_added": self._num_added, **found}

    def get_state(self) -> dict[str, Any]:
        """Return the steps."""
        buffers = {name: each.get_state() for name, each in self._buffers.items()}
        return {"num_added": self._num_added, "replay_buffers": buffers}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take what `get_state` returned."""
        self._num_added = state["num_added"]
        for name, own in state["replay_buffers"].items():
            self._buffers[name] = ReplayBuffer(self._capacity, self._rng)
            self._buffers[name].set_state(own)

    def get_host(self) -> str:
        """Return the name of this machine."""
        return platform.node()


#: The name since 1.10.
MultiAgentReplayBuffer = LocalReplayBuffer


class StoreToReplayBuffer:
    """Puts batches into a buffer, and passes them on.

    Parameters
    ----------
    local_buffer : LocalReplayBuffer
    actors : optional
        Refused: a buffer is in the algorithm's process.
    """

    def __init__(self, *, local_buffer: Any = None, actors: Any = None) -> None:
        _refuse_actors("StoreToReplayBuffer", actors)
        self._buffer = local_buffer

    def __call__(self, batch: Any) -> Any:
        """Return the batch."""
        self._buffer.add_batch(batch)
        return batch


def Replay(  # noqa: N802
    *, local_buffer: Any = None, actors: Any = None, num_async: int = 4
) -> LocalIterator[Any]:
    """Return an iterator over batches that are drawn from a buffer.

    Parameters
    ----------
    local_buffer : LocalReplayBuffer
    actors : optional
        Refused: a buffer is in the algorithm's process.
    num_async : int
        Has no effect.
    """
    _refuse_actors("Replay", actors)

    def generate(_: Any) -> Iterator[Any]:
        while True:
            found = local_buffer.replay()
            yield _NextValueNotReady() if found is None else found

    return LocalIterator(generate, SharedMetrics())


def _refuse_actors(name: str, actors: Any) -> None:
    if actors:
        raise UnsupportedRayFeatureError(
            f"{name}(actors=...)",
            "A buffer of a plan is in the algorithm's process",
            "pass local_buffer",
        )


class TrainOneStep:
    """Lets policies learn from a batch.

    Parameters
    ----------
    workers : WorkersOfPlan
    policies : list of str, optional
        Default: all that learn.
    num_sgd_iter : int, default 1
        How often the batch is learned from.
    sgd_minibatch_size : int, default 0
        Of how many steps a minibatch of PPO is; 0 is the whole batch.
    """

    def __init__(
        self,
        workers: WorkersOfPlan,
        policies: Sequence[str] | None = None,
        num_sgd_iter: int = 1,
        sgd_minibatch_size: int = 0,
    ) -> None:
        self._workers, self._policies = workers, policies
        self._epochs, self._size = num_sgd_iter, sgd_minibatch_size

    def __call__(self, batch: Any) -> tuple[Any, dict[str, Any]]:
        """Return the batch, and what the learning has to say, by policy."""
        algorithm = self._workers.algorithm
        wanted = self._workers.trained() if self._policies is None else self._policies
        found = {}
        for name, own in batch.as_multi_agent().policy_batches.items():
            if name in wanted and own.count:
                found[name] = self._learn(algorithm, algorithm.learners[name], own)
        metrics = LocalIterator.get_metrics()
        metrics.counters[STEPS_TRAINED_COUNTER] += batch.count
        metrics.info["learner"] = {**metrics.info.get("learner", {}), **found}
        algorithm.learned.update(found)
        return batch, found

    def _learn(self, algorithm: Any, learner: Any, batch: SampleBatch) -> dict[str, Any]:
        num_steps = algorithm.num_steps
        if isinstance(learner, DQNLearner):
            statistics: dict[str, Any] = {}
            for _ in range(self._epochs):
                statistics = learner.learn_batch(columns_of_steps(batch), num_steps)
            return statistics
        columns = columns_of_batch(batch)
        if isinstance(learner, PPOLearner):
            size = self._size or batch.count
            return learner.learn(
                [columns], num_steps, algorithm.rng, num_epochs=self._epochs, minibatch_size=size
            )
        if self._size:
            raise UnsupportedRayFeatureError(
                f"TrainOneStep(sgd_minibatch_size={self._size}) of {type(learner).__name__}",
                "It learns from a whole batch",
                "leave sgd_minibatch_size out, or use a policy of PPO",
            )
        for _ in range(self._epochs):
            statistics = learner.learn([columns], num_steps)
        return dict(statistics)


def columns_of_steps(batch: SampleBatch) -> dict[str, Any]:
    """Return the steps of a batch for Q-learning, of shape (rows, ...)."""
    return {
        "observations": batch["obs"],
        "actions": np.asarray(batch["actions"], np.int32),
        "rewards": batch["rewards"],
        "terminateds": batch["terminateds"],
        "next_observations": batch["new_obs"],
    }


class UpdateTargetNetwork:
    """Lets the target networks of DQN follow, after a number of steps.

    Parameters
    ----------
    workers : WorkersOfPlan
    target_update_freq : int
        In steps.
    by_steps_trained : bool, default False
        Count the steps that were learned from, in place of those played.
    policies : list of str, optional
        Default: all that learn.
    """

    def __init__(
        self,
        workers: WorkersOfPlan,
        target_update_freq: int,
        by_steps_trained: bool = False,
        policies: Sequence[str] | None = None,
    ) -> None:
        self._workers, self._policies = workers, policies
        self._every, self._last = target_update_freq, 0
        self._counter = STEPS_TRAINED_COUNTER if by_steps_trained else STEPS_SAMPLED_COUNTER

    def __call__(self, item: Any) -> Any:
        """Return the item."""
        now = LocalIterator.get_metrics().counters[self._counter]
        if now - self._last >= self._every:
            self._last = now
            for name in self._policies or self._workers.trained():
                learner = self._workers.algorithm.learners[name]
                if isinstance(learner, DQNLearner):
                    learner.update_target()
        return item


def Concurrently(  # noqa: N802
    ops: Sequence[LocalIterator[Any]],
    *,
    mode: str = "round_robin",
    output_indexes: Sequence[int] | None = None,
    round_robin_weights: Sequence[Any] | None = None,
) -> LocalIterator[Any]:
    """Return one iterator that runs several, and gives the items of some.

    Parameters
    ----------
    ops : list of LocalIterator
    mode : {"round_robin", "async"}, default "round_robin"
        Take one item of each in turn, or those that are ready.
    output_indexes : list of int, optional
        Of which iterators the items are given. Default: all.
    round_robin_weights : list, optional
        See `LocalIterator.union`.

    Raises
    ------
    ValueError
        When the mode is another.
    """
    if mode not in ("round_robin", "async"):
        raise ValueError(f"Concurrently(mode={mode!r}): expected 'round_robin' or 'async'.")

    def marked(index: int) -> Callable[[Any], tuple[int, Any]]:
        return lambda item: (index, item)

    first, *others = [op.for_each(marked(index)) for index, op in enumerate(ops)]
    joined: Any = first.union(
        *others, deterministic=mode == "round_robin", round_robin_weights=round_robin_weights
    )
    if output_indexes is not None:
        joined = joined.filter(lambda pair: pair[0] in output_indexes)
    return joined.for_each(lambda pair: pair[1])  # type: ignore[no-any-return]


def StandardMetricsReporting(  # noqa: N802
    train_op: LocalIterator[Any],
    workers: WorkersOfPlan,
    config: Mapping[str, Any],
    selected_workers: Any = None,
    by_steps_trained: bool = False,
) -> LocalIterator[Any]:
    """Return the iterator: after each item the algorithm says what it has learned and played.

    Parameters
    ----------
    train_op : LocalIterator
    workers : WorkersOfPlan
    config : dict
    selected_workers : list, optional
        Has no effect: episodes of all runners are counted.
    by_steps_trained : bool
        Has no effect: an iteration is counted in steps that were played.
    """
    return train_op


def _get_shared_metrics() -> MetricsContext:
    """Return the metrics of the plan whose function is running."""
    return LocalIterator.get_metrics()


def synchronous_parallel_sample(
    *,
    worker_set: Any,
    max_agent_steps: int | None = None,
    max_env_steps: int | None = None,
    concat: bool = True,
    sample_timeout_s: float | None = None,
    random_actions: bool = False,
    _uses_new_env_runners: bool = False,
    _return_metrics: bool = False,
) -> Any:
    """Let all runners play, for the ``training_step`` of a program.

    Parameters
    ----------
    worker_set : RunnerGroup
        ``algorithm.env_runner_group``.
    max_agent_steps, max_env_steps : int, optional
        Of how many steps, at least; they mean the same. Default: one sample of each runner.
    concat : bool, default True
        Return one batch. Episodes are a list in any case.
    sample_timeout_s : float, optional
        Has no effect: the option of the algorithm counts.
    random_actions : bool, default False
        Refused, see `WorkerOfProgram.sample`.
    _uses_new_env_runners : bool, default False
        Return episodes, as since 2024.
    _return_metrics : bool, default False
        Return also what ``get_metrics`` of the runners returned.

    Returns
    -------
    batch, list of batches, or list of episodes; or a tuple of it and a list
    """
    wanted = max_env_steps or max_agent_steps
    each = None
    if _uses_new_env_runners:
        each = -(-(wanted or FRAGMENT) // len(worker_set))

    def play(worker: Any) -> tuple[Any, Any]:
        found = worker.sample(num_timesteps=each, random_actions=random_actions)
        return found, worker.get_metrics()

    samples: list[Any] = []
    metrics: list[Any] = []
    while True:
        for sample, own in worker_set.foreach_worker(play):
            samples += sample if _uses_new_env_runners else [sample]
            metrics.append(own)
        if _uses_new_env_runners or sum(len(sample) for sample in samples) >= (wanted or 0):
            break
    found = samples if _uses_new_env_runners or not concat else concat_samples(samples)
    return (found, metrics) if _return_metrics else found


class Planned(Agent):
    """An algorithm that learns by a plan of a program."""

    _execution_plan: ClassVar[Callable[..., LocalIterator[Any]]]

    def setup(self, config: dict[str, Any]) -> None:
        super().setup(config)
        #: What the policies that have learned say, by name.
        self.learned: dict[str, dict[str, Any]] = {}
        options = {**self.config.to_dict(), **defaults_of_trainers(self.config)}
        self._steps = iter(type(self)._execution_plan(WorkersOfPlan(self), options))

    def can_train(self, learner_class: Any) -> bool:
        """Return True: the plan says which policies learn from what."""
        return True

    @property
    def rng(self) -> np.random.Generator:
        """What draws minibatches."""
        return self._rng

    def training_step(self) -> dict[str, Any]:
        """Take the next item of the plan."""
        self.learned = {}
        while isinstance(next(self._steps), _NextValueNotReady):
            pass
        return dict(self.learned)

    def exploration(self) -> float:
        """Return the largest chance of a random action that a policy asks for."""
        asked = (getattr(each.config, "epsilon", None) for each in self.learners.values())
        return max(
            (scheduled(each, self.num_steps) for each in asked if each is not None), default=0.0
        )

    def runner_spec(self, num_runners: int, num_envs: int) -> EnvRunnerSpec:
        return replace(super().runner_spec(num_runners, num_envs), keeps_next_observations=True)


__all__ = [
    "STEPS_SAMPLED_COUNTER",
    "STEPS_TRAINED_COUNTER",
    "ConcatBatches",
    "Concurrently",
    "LocalReplayBuffer",
    "MultiAgentReplayBuffer",
    "ParallelRollouts",
    "Replay",
    "SelectExperiences",
    "StandardMetricsReporting",
    "StandardizeFields",
    "StoreToReplayBuffer",
    "TrainOneStep",
    "UpdateTargetNetwork",
    "synchronous_parallel_sample",
]
