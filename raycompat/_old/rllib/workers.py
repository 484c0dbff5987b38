"""Workers as programs use them: `RolloutWorker`, and runners in functions of programs.

Functions that programs give to ``foreach_worker``, and evaluations of programs, see a runner as a
`WorkerOfProgram`: its ``sample()`` takes no number of steps, and its metrics are collected afterwards.
"""

from __future__ import annotations

import logging
import platform
import socket
from collections.abc import Callable, Mapping
from typing import Any

import raycompat as ray
from raycompat._old.rllib.sample_batch import MultiAgentBatch, batch_of, concat_samples
from raycompat._surface import forms
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.acting import ActingPolicy, PolicyPlan
from raycompat.rllib.env.construction import env_creator, make_env
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.env.env_runner import EnvRunner
from raycompat.rllib.env.episode import describe_records
from raycompat.rllib.env.runner import POLICY_ID, EnvRunnerSpec, PlayedEpisodes, Runner
from raycompat.rllib.fixed_policies import is_rule
from raycompat.rllib.results import EndedEpisode, describe, describe_agents
from raycompat.util import get_node_ip_address

#: Steps of each environment in a sample, where the options say "auto".
FRAGMENT = 200

#: Fragments after which a sample of an evaluation ends without an episode, where there is no horizon.
_MOST_FRAGMENTS = 100

logger = logging.getLogger(__name__)


#: The attributes of a runner's view; all others are the runner's.
_OWN = ("_runner", "_fragment", "_is_evaluation", "_explores", "_gives_episodes")


class WorkerOfProgram:
    """A runner, as programs see it.

    Parameters
    ----------
    runner : Runner
    fragment : int
        Steps of each environment in a sample of training.
    is_evaluation : bool
        Whether a sample is one whole episode, without exploring.
    explores : bool
        Whether actions are drawn.
    gives_episodes : bool
        Whether a sample is a list of episodes, the form of today, and not a `SampleBatch`.
    """

    def __init__(
        self,
        runner: Runner,
        fragment: int = FRAGMENT,
        is_evaluation: bool = False,
        explores: bool = True,
        gives_episodes: bool = False,
    ) -> None:
        self._gives_episodes = gives_episodes
        self._runner, self._fragment = runner, fragment
        self._is_evaluation, self._explores = is_evaluation, explores

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the runner."""
        if name.startswith("__") or "_runner" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._runner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep what a program sets in the runner, where its callbacks find it."""
        if name in _OWN:
            super().__setattr__(name, value)
        else:
            setattr(self._runner, name, value)

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> Any:
        """Play, and return the steps.

        Parameters
        ----------
        num_timesteps, num_episodes : int, optional
            Return episodes: parts of them with so many steps at least, which continue those of the
            sample before; or so many whole ones, from new beginnings.
        explore : bool, optional
            Whether actions are drawn; by default as the options say.
        random_actions : bool, default False
            Refused: the policies act.
        force_reset : bool, default False
            Whether new episodes begin. With `num_episodes` they do in any case.

        Returns
        -------
        list of SingleAgentEpisode or MultiAgentEpisode
            Where a number of steps or episodes is given, and for functions that
            ``foreach_env_runner`` calls: one episode of an evaluation, else a fragment.
        SampleBatch, or MultiAgentBatch of an environment of several agents
            Else.

        Raises
        ------
        ValueError
            When both numbers are given.

        Notes
        -----
        A sample of an evaluation ends with an episode; without one, after ``horizon`` steps, or after
        100 fragments where the options have no horizon. It then logs a warning, and the next sample
        goes on with the episode.
        """
        draws = self._explores if explore is None else explore
        if random_actions:
            raise UnsupportedRayFeatureError(
                "sample(random_actions=True)",
                "The policies of the runner act",
                "step the environments of env_runner.env with actions of their action_space",
            )
        if self._gives_episodes and num_timesteps is None and num_episodes is None:
            if self._is_evaluation:
                num_episodes = 1
            else:
                num_timesteps = self._fragment * self._runner.spec.num_envs
        if force_reset:
            self._runner.restart()
        if num_timesteps is not None or num_episodes is not None:
            return self._runner.sample_episodes(num_episodes, num_timesteps, draws)
        if not self._is_evaluation:
            return self._batch(self._fragment, draws)
        batches, ended = [], len(self._runner.metrics)
        most = self._runner.spec.horizon or _MOST_FRAGMENTS * self._fragment
        for _ in range(most):
            batches.append(self._batch(1, draws))
            if len(self._runner.metrics) > ended:
                break
        else:
            logger.warning(
                "No episode of the environment %r ended within %d steps of an evaluation's sample. "
                "The sample ends without one. Expected an environment that says when an episode is "
                "over: let its step() do so, or set the option 'horizon'.",
                self._runner.spec.described,
                most,
            )
        return concat_samples(batches)

    def _batch(self, num_steps: int, explore: bool) -> Any:
        runner: Any = self._runner
        sample = runner.sample(num_steps, None, explore)
        runner.metrics.extend(sample.episodes)
        runner.metrics.num_steps += sample.num_steps
        batches = {}
        for name, columns in sample.policies.items():
            acting = runner.policies[name]
            plain = dict(columns)
            if isinstance(acting, ActingPolicy):
                for each in ("observations", "next_observations"):
                    if each in plain:
                        plain[each] = acting.without_memory(plain[each])
            batches[name] = batch_of(plain)
        if list(batches) == [POLICY_ID] and isinstance(runner, EnvRunner):
            return batches[POLICY_ID]
        return MultiAgentBatch(batches, sample.num_steps)

    def get_metrics(self) -> PlayedEpisodes:
        """Return the episodes that ended since the last call."""
        found, self._runner.metrics = self._runner.metrics, PlayedEpisodes()
        return found

    def foreach_env(self, func: Callable[[Any], Any]) -> list[Any]:
        """Return what a function returns for each environment.

        Parameters
        ----------
        func : callable
        """
        return self._runner.apply_to_environments(func)

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what a function returns for this worker.

        Parameters
        ----------
        func : callable
        *args, **kwargs
            Its other arguments.
        """
        return func(self, *args, **kwargs)

    def get_policy(self, policy_id: str = POLICY_ID) -> Any:
        """Return a policy: the object of a program's class, or what acts.

        Parameters
        ----------
        policy_id : str, default "default_policy"
        """
        acting: Any = self._runner.policies[policy_id]
        return getattr(acting, "rule", acting)

    @property
    def policy_map(self) -> dict[str, Any]:
        """The policies by their names, as `get_policy` returns them."""
        return {name: self.get_policy(name) for name in self._runner.policies}

    def for_policy(
        self, func: Callable[..., Any], policy_id: str = POLICY_ID, **kwargs: Any
    ) -> Any:
        """Return what a function returns for a policy.

        Parameters
        ----------
        func : callable
        policy_id : str, default "default_policy"
        **kwargs
            Its other arguments.
        """
        return func(self.get_policy(policy_id), **kwargs)

    def foreach_env_with_context(self, func: Callable[..., Any]) -> list[Any]:
        """Return what a function of environment and context returns for each environment.

        Parameters
        ----------
        func : callable
        """
        contexts = map(self._runner.context, range(self._runner.spec.num_envs))
        return self._runner.apply_to_environments(lambda env: func(env, next(contexts)))

    def sample_with_count(self) -> tuple[Any, int]:
        """Return what `sample` returns, and how many steps it has."""
        found = self.sample()
        return found, found.count

    def assert_healthy(self) -> None:
        """Do nothing: a runner that cannot play raises when it is made."""

    def lock(self) -> None:
        """Do nothing: one call of a runner runs at a time."""

    #: The end of `lock`.
    unlock = lock

    @property
    def num_envs(self) -> int:
        """How many environments it plays in."""
        return self._runner.spec.num_envs

    def get_host(self) -> str:
        """Return the name of its machine."""
        return platform.node()

    def get_node_ip(self) -> str:
        """Return the address of its machine."""
        return get_node_ip_address()

    def find_free_port(self) -> int:
        """Return a free port of its machine."""
        with socket.socket() as open_socket:
            open_socket.bind(("", 0))
            port: int = open_socket.getsockname()[1]
            return port

    def get_filters(self, flush_after: bool = False) -> dict[str, Any]:
        """Return the filters of observations, by policy.

        Parameters
        ----------
        flush_after : bool
            Has no effect: the algorithm takes what was counted with each sample.
        """
        return {
            name: acting.filter
            for name, acting in self._runner.policies.items()
            if isinstance(acting, ActingPolicy)
        }

    def get_spaces(self) -> dict[str, tuple[Any, Any]]:
        """Return the spaces of observations and actions by policy, and the environment's."""
        plans = self._runner.spec.policies
        found = {name: (p.observation_space, p.action_space) for name, p in plans.items()}
        env = self.foreach_env(lambda each: each)[0]
        return {"__env__": (env.observation_space, env.action_space), **found}

    def foreach_policy(self, func: Callable[..., Any], **kwargs: Any) -> list[Any]:
        """Return what a function of policy and name returns for each policy.

        Parameters
        ----------
        func : callable
        **kwargs
            Its other arguments.
        """
        return [func(self.get_policy(name), name, **kwargs) for name in self._runner.policies]

    def set_weights(
        self, weights: Mapping[str, Any], global_vars: Any = None, weights_seq_no: Any = None
    ) -> None:
        """Replace the weights of policies.

        Parameters
        ----------
        weights : dict
            By policy, what its ``get_weights`` returned.
        global_vars, weights_seq_no : optional
            They have no effect.
        """
        for name, own in weights.items():
            self.get_policy(name).set_weights(own)

    def get_weights(self, policies: Any = None, inference_only: bool = False) -> dict[str, Any]:
        """Return the weights of policies.

        Parameters
        ----------
        policies : list of str, optional
            Default: all.
        inference_only : bool, default False
            Has no effect: a runner has what acts.
        """
        names = self._runner.policies if policies is None else policies
        return {name: self.get_policy(name).get_weights() for name in names}

    def stop(self) -> None:
        """Close the environments."""
        self._runner.close()


class EnvironmentHandle:
    """An environment whose methods are called as those of an actor: ``env.set_task.remote(2)``.

    Parameters
    ----------
    env : gymnasium.Env
    """

    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        """Return a method of the environment."""
        if name.startswith("__"):
            raise AttributeError(name)
        return _RemoteMethod(getattr(self._env, name))


class _RemoteMethod:
    """A method that is called with ``remote``."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Return a reference to what the method returns."""
        return ray.put(self._method(*args, **kwargs))


@forms.takes_old_options_in_constructor("ray.rllib.evaluation.RolloutWorker")
class RolloutWorker(WorkerOfProgram):
    """Environments and a policy of a program, for a training of its own.

    Parameters
    ----------
    env_creator : callable
        Returns an environment of one agent for its config.
    policy, policy_spec, default_policy_class : type
        The policy, a subclass of `Policy` that acts by a rule: the names of it in different years.
    config, policy_config : dict, optional
        What the policy is made with; ``env_config`` is the environment's.
    rollout_fragment_length, batch_steps : int, optional
        Steps of each environment in a sample. Default 100.
    num_envs : int, default 1
    worker_index, num_workers : int, default 0
        What the environment's config says about the worker.
    seed : int, optional

    Raises
    ------
    UnsupportedRayFeatureError
        When the policy is one that learns.

    Notes
    -----
    Ray source: ``ray.rllib.evaluation.RolloutWorker``, 1.12.0; Ray has removed it since. Differs from
    Ray: the policy acts by a rule; a policy that learns belongs to an algorithm.
    """

    def __init__(
        self,
        env_creator: Any,
        policy: Any = None,
        *,
        policy_spec: Any = None,
        default_policy_class: Any = None,
        config: Any = None,
        policy_config: Any = None,
        rollout_fragment_length: int | None = None,
        batch_steps: int | None = None,
        num_envs: int = 1,
        worker_index: int = 0,
        num_workers: int = 0,
        seed: int | None = None,
    ) -> None:
        cls = policy or policy_spec or default_policy_class
        if not is_rule(cls):
            raise UnsupportedRayFeatureError(
                f"RolloutWorker with the policy {getattr(cls, '__name__', cls)}",
                "A policy that learns belongs to an algorithm",
                "use the algorithm, or a subclass of ray.rllib.Policy with compute_actions",
            )
        given = config or policy_config or {}
        options = dict(given) if isinstance(given, Mapping) else given.to_dict()
        spec = _spec_of(env_creator, cls, options, num_envs, num_workers, seed)
        fragment = rollout_fragment_length or batch_steps or 100
        super().__init__(EnvRunner(spec, worker_index), fragment)

    @classmethod
    def as_remote(
        cls,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: int | None = None,
        resources: dict[str, float] | None = None,
        **without_effect: Any,
    ) -> Any:
        """Return the class as one of actors.

        Parameters
        ----------
        num_cpus, num_gpus : float, optional
        memory : int, optional
            In bytes.
        resources : dict of float, optional
            Of each actor, as in ``ray.remote``.
        **without_effect
            ``object_store_memory``.
        """
        given = {
            "num_cpus": num_cpus,
            "num_gpus": num_gpus,
            "memory": memory,
            "resources": resources,
        }
        options: dict[str, Any] = {name: each for name, each in given.items() if each is not None}
        return ray.remote(**options)(cls) if options else ray.remote(cls)


def _spec_of(
    creator: Any, cls: Any, options: dict[str, Any], num_envs: int, num_workers: int, seed: Any
) -> EnvRunnerSpec:
    env_config = dict(options.get("env_config") or {})
    create = env_creator(creator)
    probe = make_env(create, EnvContext(env_config, 0, num_workers=num_workers), creator)
    spaces = probe.observation_space, probe.action_space
    close = getattr(probe, "close", None)
    if close is not None:
        close()
    return EnvRunnerSpec(
        create=create,
        described=creator,
        env_config=env_config,
        num_envs=num_envs,
        num_runners=num_workers,
        policies={POLICY_ID: PolicyPlan(cls, None, *spaces, options=options)},
        seed=0 if seed is None else seed,
    )


def _episodes_of(local: Any, remotes: Any, timeout_s: float) -> list[EndedEpisode]:
    found = [] if local is None else list(local.get_metrics())
    calls = [each.get_metrics.remote() for each in remotes or ()]
    answers = ray.get(calls, timeout=timeout_s) if calls else []
    return found + [episode for each in answers for episode in each]


@forms.takes_old_options("ray.rllib.evaluation.collect_episodes")
def collect_episodes(
    local_worker: Any = None,
    remote_workers: Any = None,
    to_be_collected: Any = None,
    timeout_seconds: float = 60.0,
    *,
    workers: Any = None,
    remote_worker_ids: Any = None,
) -> Any:
    """Return the episodes that ended in workers since they were collected last.

    Parameters
    ----------
    local_worker : optional
        A worker of this process.
    remote_workers : list, optional
        Actors.
    to_be_collected : optional
        Has no effect: all answers are waited for.
    timeout_seconds : float, default 60
        For how long, in seconds.
    workers : optional
        All of an algorithm or of an evaluation, in place of the others.
    remote_worker_ids : list of int, optional
        Which of `workers`. Default: all.

    Returns
    -------
    list, or (list, list)
        The episodes; without `workers`, and an empty list.
    """
    if workers is None and hasattr(local_worker, "remote_workers"):
        workers, local_worker = local_worker, None
    if workers is None:
        return _episodes_of(local_worker, remote_workers, timeout_seconds), []
    remotes = workers.remote_workers()
    if remote_worker_ids is not None:
        remotes = [each for n, each in enumerate(remotes, 1) if n in remote_worker_ids]
    local = None if remotes else workers.local_worker()
    return _episodes_of(local, remotes, timeout_seconds)


def summarize_episodes(
    episodes: list[EndedEpisode], new_episodes: Any = None, keep_custom_metrics: bool = False
) -> dict[str, Any]:
    """Return the means, minima and maxima of episodes, by the names of today and of until 2024.

    Parameters
    ----------
    episodes : list
        What `collect_episodes` returned.
    new_episodes : list, optional
        Those that are counted as the iteration's. Default: all.
    keep_custom_metrics : bool, default False
        ``custom_metrics`` has the values of all episodes, in place of mean, minimum and maximum.
    """
    described, of_agents = describe(episodes), describe_agents(episodes)
    records = [each.record for each in episodes if each.record is not None]
    of_callbacks = describe_records(records, keep_custom_metrics)
    means = ("policy_reward_mean", "policy_reward_min", "policy_reward_max")
    return {
        **described,
        **of_agents,
        "num_episodes": len(episodes),
        "episode_reward_mean": described["episode_return_mean"],
        "episode_reward_min": described["episode_return_min"],
        "episode_reward_max": described["episode_return_max"],
        "episodes_this_iter": len(episodes if new_episodes is None else new_episodes),
        **{name: of_agents.get(name, {}) for name in means},
        "custom_metrics": of_callbacks["custom_metrics"],
        "hist_stats": {
            **of_callbacks["hist_stats"],
            "episode_reward": [each.value for each in episodes],
            "episode_lengths": [each.length for each in episodes],
        },
    }


@forms.takes_old_options("ray.rllib.evaluation.collect_metrics")
def collect_metrics(
    local_worker: Any = None,
    remote_workers: Any = None,
    to_be_collected: Any = None,
    timeout_seconds: float = 180.0,
    keep_custom_metrics: bool = False,
) -> dict[str, Any]:
    """Return what `summarize_episodes` makes of the episodes of `collect_episodes`.

    Parameters
    ----------
    local_worker : optional
        A worker of this process, or all workers of an algorithm.
    remote_workers : list, optional
        Actors.
    to_be_collected : optional
        Has no effect.
    timeout_seconds : float, default 180
    keep_custom_metrics : bool, default False
        See `summarize_episodes`.
    """
    found = collect_episodes(local_worker, remote_workers, timeout_seconds=timeout_seconds)
    episodes = found[0] if isinstance(found, tuple) else found
    return summarize_episodes(episodes, keep_custom_metrics=keep_custom_metrics)


__all__ = [
    "RolloutWorker",
    "collect_episodes",
    "collect_metrics",
    "summarize_episodes",
]
