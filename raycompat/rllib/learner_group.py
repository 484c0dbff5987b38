"""`LearnerGroup`: what learns in an algorithm, as programs see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Metrics, State
from raycompat.rllib.connectors.learned import LearnerConnectors
from raycompat.rllib.connectors.pipeline import ConnectorPipelineV2
from raycompat.rllib.networks import Weights

if TYPE_CHECKING:
    import keras
    import torch

    from raycompat.rllib.env.multi_agent_episode import MultiAgentEpisode
    from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
    from raycompat.rllib.policy_learner import PolicyLearner


_Result = TypeVar("_Result")

_RL_MODULE, _LEARNER = "rl_module", "learner"

#: Options of an update that are only taken with their defaults: why, and what to do.
_WHY_NOT = {
    "async_update": ("The learner is in the algorithm's process", "leave it out"),
    "return_state": ("An update returns what it has logged", "call learner_group.get_state()"),
    "num_total_minibatches": ("Each epoch learns from all steps", "give num_epochs"),
}

# Algorithms are Any below: their module imports this one.


class _Networks(Mapping[str, Any]):
    """The networks of all policies that learn, by name."""

    def __init__(self, learners: Mapping[str, PolicyLearner]) -> None:
        self._learners = learners

    def __getitem__(self, name: str) -> Any:
        return self._learners[name].model

    def __iter__(self) -> Iterator[str]:
        return iter(self._learners)

    def __len__(self) -> int:
        return len(self._learners)


class AlgorithmLearner:
    """The learner of an algorithm, whose networks are Keras models, or of several policies.

    Parameters
    ----------
    algorithm : Algorithm
    connectors : ConnectorPipelineV2
        Those of the program.

    Attributes
    ----------
    config : AlgorithmConfig
    module : mapping of str to network
        By policy.
    """

    def __init__(self, algorithm: Any, connectors: ConnectorPipelineV2) -> None:
        self._algorithm, self._learner_connector = algorithm, connectors
        self.config, self.module = algorithm.config, _Networks(algorithm.learners)

    def get_optimizer(
        self, module_id: str = "default_policy", optimizer_name: str = "default_optimizer"
    ) -> keras.optimizers.Optimizer | torch.optim.Optimizer:
        """Return the optimizer of a policy.

        Parameters
        ----------
        module_id : str, default "default_policy"
        optimizer_name : str, default "default_optimizer"
            Of a policy whose network is in PyTorch; one of Keras has a single optimizer.

        Raises
        ------
        KeyError
            When there is no such policy or optimizer.
        """
        own = self._algorithm.learners[module_id]
        if hasattr(own, "torch_learner"):
            return own.torch_learner.get_optimizer(optimizer_name=optimizer_name)
        return own.learner.optimizer


class LearnerGroup:
    """The learners of an algorithm: one, in the algorithm's process.

    Parameters
    ----------
    algorithm : Algorithm
    connectors : LearnerConnectors, optional
        Those of the program, which a function may look for in a learner.

    Notes
    -----
    Ray source: ``ray.rllib.core.learner.learner_group.LearnerGroup``, 2.60.0. Differs from Ray: the
    algorithm updates the learner; a group shows it, its weights and its state.
    """

    is_local, is_remote = True, False

    def __init__(self, algorithm: Any, connectors: LearnerConnectors | None = None) -> None:
        self._algorithm = algorithm
        pipeline = ConnectorPipelineV2(connectors=connectors.connectors if connectors else ())
        self._view = AlgorithmLearner(algorithm, pipeline)
        for own in (getattr(each, "torch_learner", None) for each in algorithm.learners.values()):
            if own is not None and algorithm.joined_learner is None:
                own._learner_connector.connectors[:0] = pipeline.connectors

    def __len__(self) -> int:
        """Return the number of learners."""
        return 1

    @property
    def _learner(self) -> Any:
        """The learner: a program's own class, where there is one policy that learns by it."""
        if self._algorithm.joined_learner is not None:
            return self._algorithm.joined_learner.torch_learner
        learners = list(self._algorithm.learners.values())
        own = getattr(learners[0], "torch_learner", None) if len(learners) == 1 else None
        return self._view if own is None else own

    def foreach_learner(
        self, func: Callable[..., _Result], *args: object, **kwargs: object
    ) -> list[_Result]:
        """Return what a function returns for each learner, in a list.

        Parameters
        ----------
        func : callable
            Its first argument is the learner.
        *args, **kwargs
            Its other arguments; those of Ray that choose among learners have no effect.
        """
        chosen = ("healthy_only", "remote_actor_ids", "timeout_seconds", "return_obj_refs")
        given = {name: each for name, each in kwargs.items() if name not in chosen}
        return [func(self._learner, *args, **given)]

    foreach_worker = foreach_learner

    def update(
        self,
        *,
        episodes: Sequence[SingleAgentEpisode | MultiAgentEpisode] | None = None,
        timesteps: Mapping[str, int] | None = None,
        async_update: bool = False,
        return_state: bool = False,
        num_epochs: int = 1,
        num_total_minibatches: int = 0,
        minibatch_size: int | None = None,
        shuffle_batch_per_epoch: bool = False,
        **refused: object,
    ) -> list[dict[str, Metrics]]:
        """Let the policies of a program's algorithm learn from episodes.

        Parameters
        ----------
        episodes : list of SingleAgentEpisode or MultiAgentEpisode
            With ``sample`` of env runners. A policy learns from the steps of its agents.
        timesteps : dict, optional
            ``num_env_steps_sampled_lifetime``, for schedules. Default: what runners have played.
        async_update, return_state : bool, default False
            Only False: the update ends before the call does, and ``get_state`` returns the state.
        num_epochs : int, default 1
            How often each step is learned from.
        num_total_minibatches : int, default 0
            Only 0: `num_epochs` says how much is learned.
        minibatch_size : int, optional
            Default: all steps of a policy.
        shuffle_batch_per_epoch : bool, default False
            Has no effect: each epoch has another order.
        **refused
            Batches and references in place of episodes.

        Returns
        -------
        list of dict
            For the only learner: what it has logged, by module. `MetricsLogger.aggregate` takes it.

        Raises
        ------
        UnsupportedRayFeatureError
            When the algorithm learns in its own ``training_step``, or from something else.
        FloatingPointError
            When a loss became NaN.
        """
        joined = self._algorithm.joined_learner
        given = sorted(name for name, value in refused.items() if value is not None)
        if joined is None:
            raise UnsupportedRayFeatureError(
                f"learner_group.update() of {type(self._algorithm).__name__}",
                "It learns from samples in its own training_step",
                "call super().training_step(), or derive the algorithm from Algorithm and its config "
                "from AlgorithmConfig, with get_default_learner_class",
            )
        options = {
            "async_update": async_update,
            "return_state": return_state,
            "num_total_minibatches": num_total_minibatches,
        }
        for name, value in options.items():
            if value:
                call = f"learner_group.update({name}={value!r})"
                raise UnsupportedRayFeatureError(call, *_WHY_NOT[name])
        if given or episodes is None:
            raise UnsupportedRayFeatureError(
                f"learner_group.update({', '.join(given) or 'episodes=None'})",
                "Policies learn from episodes",
                "use learner_group.update(episodes=...)",
            )
        algorithm = self._algorithm
        key = "num_env_steps_sampled_lifetime"
        num_steps = int((timesteps or {}).get(key, algorithm.num_steps))
        rng = algorithm._rng
        return [joined.update(episodes, num_steps, rng, num_epochs, minibatch_size)]

    def update_from_episodes(
        self, episodes: Sequence[SingleAgentEpisode | MultiAgentEpisode], **options: Any
    ) -> dict[str, Metrics]:
        """Return the only item of what `update` returns, the form until 2024.

        Parameters
        ----------
        episodes : list of SingleAgentEpisode or MultiAgentEpisode
        **options
            See `update`.
        """
        (found,) = self.update(episodes=episodes, **options)
        return found

    def get_weights(self, module_ids: Iterable[str] | None = None) -> dict[str, Weights]:
        """Return the weights of policies, lists of arrays, by name.

        Parameters
        ----------
        module_ids : iterable of str, optional
            Default: all.
        """
        found: dict[str, Weights] = self._algorithm.get_weights(module_ids)
        return found

    def set_weights(self, weights: Mapping[str, Weights]) -> None:
        """Replace the weights of policies by what `get_weights` returned.

        Parameters
        ----------
        weights : dict of lists of arrays
            By policy.
        """
        self._algorithm.set_weights(weights)

    def get_state(self, components: object = None, **kwargs: object) -> State:
        """Return the states of the policies that learn: ``["learner"]["rl_module"]`` by name.

        Parameters
        ----------
        components : str or list of str, optional
            They have no effect: the state is whole.
        **kwargs
            They have no effect.
        """
        learners = self._algorithm.learners
        return {_LEARNER: {_RL_MODULE: {n: each.get_state() for n, each in learners.items()}}}

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned, or the part of some policies of it.

        Parameters
        ----------
        state : dict

        Raises
        ------
        ValueError
            When it has a policy that does not learn here.
        """
        own = state.get(_LEARNER, state)
        for name, each in own.get(_RL_MODULE, own).items():
            if name not in self._algorithm.learners:
                raise ValueError(
                    f"set_state: the state is of {name!r}: expected one of "
                    f"{sorted(self._algorithm.learners)}."
                )
            self._algorithm.learners[name].set_state(each)
        self._algorithm.weights_changed()

    def shutdown(self) -> None:
        """Do nothing: the learner ends with the algorithm."""
