"""`Algorithm`: what all algorithms have: training, evaluation, acting and checkpoints."""

from __future__ import annotations

import logging
import math
import os
import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np

import raycompat as ray
from raycompat._old_forms.gym.adapters import of_today
from raycompat._surface import era, forms
from raycompat._surface.modules import names_of
from raycompat._upper import upper
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Action, AgentID, Env, Metrics, Observation, Space
from raycompat.rllib.acting import ActingPolicy, ActingRule, PolicyPlan
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.algorithms.evaluation import Evaluation
from raycompat.rllib.algorithms.old_keys import RENAMED
from raycompat.rllib.algorithms.saved_algorithm import SavedAlgorithm
from raycompat.rllib.callbacks.callbacks import overridden
from raycompat.rllib.connectors.actions import ActionConnectors
from raycompat.rllib.connectors.connected import connected
from raycompat.rllib.connectors.env_to_module import MeanStdFilter as MeanStdFilterConnector
from raycompat.rllib.connectors.learned import LearnerConnectors
from raycompat.rllib.env.construction import (
    EnvCreator,
    GivenEnv,
    SpacesAlone,
    env_creator,
    make_env,
)
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.env.env_runner import EnvRunner
from raycompat.rllib.env.env_runner_group import GroupOptions, RunnerGroup, num_affordable
from raycompat.rllib.env.episode import Environments, EpisodeRecord, call_hook, describe_records
from raycompat.rllib.env.multi_agent_env import is_multi_agent
from raycompat.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from raycompat.rllib.env.runner import (
    POLICY_ID,
    Columns,
    EnvRunnerSpec,
    Runner,
    RunnerState,
    Sample,
)
from raycompat.rllib.filters import MeanStdFilter
from raycompat.rllib.fixed_policies import MultiRLModuleSpec, RLModuleSpec
from raycompat.rllib.learner_group import LearnerGroup
from raycompat.rllib.metrics_logger import LoggedMetrics, MetricsLogger
from raycompat.rllib.networks import Weights
from raycompat.rllib.policy_learner import PolicyLearner, PolicySetup
from raycompat.rllib.policy_of_algorithm import PolicyOfAlgorithm
from raycompat.rllib.policy_spec import (
    AgentSpaces,
    PolicySpec,
    check_mapping,
    specs_of,
    trained_policies,
)
from raycompat.rllib.results import (
    EpisodeStatistics,
    ResultDict,
    with_old_names,
)
from raycompat.rllib.step_writer import with_writer
from raycompat.tune import PlacementGroupFactory
from raycompat.tune.trainable.nested import merge_dicts
from raycompat.tune.trainable.place import TrialPlace
from raycompat.util.tracking import Experiment

logger = logging.getLogger(__name__)

#: The options, and the figures of the runners, that the dashboard shows.
_SHOWN_SETTINGS = ("lr", "gamma", "train_batch_size", "num_env_runners", "num_envs_per_env_runner")
_SHOWN_OF_RUNNERS = (
    "episode_return_mean",
    "episode_return_min",
    "episode_return_max",
    "episode_len_mean",
    "num_episodes_lifetime",
    "num_env_steps_sampled_per_second",
)


@forms.has_old_members("ray.rllib.algorithms.algorithm.Algorithm")
class Algorithm(SavedAlgorithm):
    """An algorithm of reinforcement learning, with its policy and the processes that play.

    Subclasses give `learner_class` and `training_step`.

    Parameters
    ----------
    config : AlgorithmConfig or dict, optional
        The options; a dict may have old names.
    env : str, class or callable, optional
        In place of the config's.
    logger_creator, registry : optional
        Have no effect: Tune writes the logs.
    storage : optional
        The place of the trial in an experiment; Tune gives it.

    Attributes
    ----------
    config : AlgorithmConfig
        A copy of the options.

    Raises
    ------
    ValueError
        When an option is unknown or not valid.
    EnvError, UnsupportedSpaceException
        When the environment cannot be used.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.algorithm.Algorithm``, 2.60.0, and ``ray.rllib.agent.Agent`` of
    0.2 to 0.7. Differs from Ray: algorithms learn in TensorFlow; `compute_single_action` works;
    results have the names of both eras, and their keys are attributes.
    """

    #: The class of its options.
    config_class: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    #: The class of what learns for a policy, see `PolicyLearner`; None for one of a program, whose
    #: policies learn in `LearnerGroup.update`.
    learner_class: ClassVar[type[PolicyLearner] | None] = None
    #: Whether it learns from samples of env runners, see `to_learn`.
    learns_from_samples: ClassVar[bool] = True
    runner_class: ClassVar[type[Runner]] = EnvRunner
    multi_agent_runner_class: ClassVar[type[Runner]] = MultiAgentEnvRunner
    #: Options in place of those of `config_class`; for classes of earlier Rays.
    default_options: ClassVar[Mapping[str, object]] = {}

    def __init__(
        self,
        config: AlgorithmConfig | Mapping[str, object] | str | None = None,
        env: Any = None,
        logger_creator: object = None,
        *,
        registry: object = None,
        storage: TrialPlace | None = None,
    ) -> None:
        if isinstance(config, str):  # the form of Ray 0.2: name and config
            config, env = env, config
        super().__init__({"config": config, "env": env}, storage=storage)

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        """Return the options that count where others are not given."""
        return cls.config_class(cls).update_from_dict(cls.default_options)

    @classmethod
    def _config_of(cls, given: object, env: GivenEnv | None = None) -> AlgorithmConfig:
        if isinstance(given, AlgorithmConfig):
            config = given.copy(copy_frozen=False)
        elif given is None or isinstance(given, Mapping):
            config = cls.get_default_config().update_from_dict(given or {})
        else:
            raise TypeError(f"config={given!r}: expected a dict or an AlgorithmConfig.")
        return config if env is None else config.environment(env)

    # Setting up.

    def setup(self, config: dict[str, Any]) -> None:
        """Make the environments, the policies and the runners."""
        self.config: Any = self._config_of(config["config"], config["env"])
        self.validate_config(self.config)
        if self.config.output and "://" not in self.config.output:
            # Runners may have other working folders.
            self.config.output = os.path.abspath(os.path.expanduser(self.config.output))
        self.config.freeze()
        settings = self.config
        self._seed = int.from_bytes(os.urandom(3)) if settings.seed is None else int(settings.seed)
        self._rng = np.random.default_rng([self._seed, 0])
        #: Returns an environment for an `EnvContext`.
        self.create_env = self.creator_of_env()
        self._mapping = check_mapping(settings.policy_mapping_fn)
        self._setups: dict[str, PolicySetup] = {}
        self._learner_classes: dict[str, Any] = {}
        #: The policies that this algorithm lets learn if its config says nothing else.
        self._able_to_learn: list[str] = []
        self._plans: dict[str, PolicyPlan] = {}
        #: The specs of modules that learn, and by which no agent acts.
        self._learner_only: dict[str, RLModuleSpec] = {}
        self._plan_policies()
        self._acting = {name: plan.make() for name, plan in self._plans.items()}
        self._trained = trained_policies(settings.policies_to_train, self._able_to_learn)
        self._episodes = EpisodeStatistics(settings.metrics_num_episodes_for_smoothing)
        self._timers: dict[str, float] = {}
        self._evaluation = Evaluation(self)
        #: What the dashboard shows; made by the first `train` outside of Tune.
        self._shown: Experiment | None = None
        self._hooks = with_writer(settings.hooks, settings.output)
        self._shows_batches = any(overridden(each, ("on_learn_on_batch",)) for each in self._hooks)
        #: Metrics that callbacks leave for batches, by policy.
        self._of_batches: dict[str, Metrics] = {}
        self._records: list[EpisodeRecord] = []
        #: What was logged in the runners, and what by `metrics`.
        self._logged, self._own = LoggedMetrics(), LoggedMetrics()
        #: What callbacks and `training_step` of a program log; `peek` finds the last results, too.
        self.metrics = MetricsLogger()
        #: Numbers of programs until 2024, with the steps so far.
        self._counters: defaultdict[str, int] = defaultdict(int)
        self.metrics.results = lambda: self._last_result
        self.metrics.count_played = self._count_played
        self._last_result: Metrics = {}
        self.env_runner_group = self._make_group(
            self._affordable(settings.num_env_runners), settings.num_envs_per_env_runner
        )
        #: What learns, by policy.
        self.learners: dict[str, Any] = {
            name: self._learner_classes[name](
                setup, self._plans[name].network, self._seed + 7919 * index
            )
            for index, (name, setup) in enumerate(self._setups.items())
        }
        #: What lets the policies of a program's algorithm learn.
        self.joined_learner: Any = None
        if self.learner_class is None and self.learners:
            from raycompat.rllib.episode_learner import JoinedLearner

            connectors = self._learner_connectors
            self.joined_learner = JoinedLearner(
                settings,
                {name: self.learners[name] for name in self.learners if self.is_trained(name)},
                self._acting,
                [] if connectors is None else connectors.connectors,
            )
        #: The learners, as programs see them.
        self.learner_group = LearnerGroup(self, self._learner_connectors)
        for name in self._plans:
            self.call_hooks("on_create_policy", policy_id=name, policy=self.get_policy(name))
        self.call_hooks("on_algorithm_init")

    def validate_config(self, config: Any) -> None:
        """Check the options before they are used; a subclass of until 2023 may change them, too.

        Parameters
        ----------
        config : AlgorithmConfig
            It has its options by their names, too, as a dict.
        """
        config.validate()

    def creator_of_env(self, env: GivenEnv | None = None) -> EnvCreator:
        """Return what makes an environment for an `EnvContext`: that of the config by default."""
        settings = self.config
        env = settings.env if env is None else env
        spaces = settings.observation_space, settings.action_space
        has_none = settings.learns_from_records or settings.plays_elsewhere
        if env is None and has_none and None not in spaces:
            return lambda context: SpacesAlone(*spaces)
        create = _with_horizon(env_creator(env), settings.horizon)
        make = settings.env_to_module_connector
        return create if make is None else connected(create, make)

    def _plan_policies(self) -> None:
        """Make an environment, and plan the policies for its spaces."""
        settings = self.config
        context = EnvContext(settings.env_config, 0, num_workers=settings.num_env_runners)
        probe = make_env(self.create_env, context, settings.env)
        try:
            #: Whether the environment is one of several agents.
            self.is_multi_agent = is_multi_agent(probe)
            self._check_agents()
            if self.is_multi_agent and settings.output:
                raise UnsupportedRayFeatureError(
                    f"output={settings.output!r} in an environment of several agents",
                    "Files have one row a step of one agent",
                    "write what env_runner.sample(num_episodes=...) returns, in a callback or in a "
                    "training_step",
                )
            self.observation_space, self.action_space = (
                probe.observation_space,
                probe.action_space,
            )
            is_read = isinstance(
                self.action_space, gymnasium.spaces.Discrete | gymnasium.spaces.Box
            )
            if settings.output and not is_read:
                raise UnsupportedRayFeatureError(
                    f"output={settings.output!r} with actions of {self.action_space!r}",
                    "BC, CQL and MARWIL read actions of Discrete and Box spaces",
                    "write what env_runner.sample(num_episodes=...) returns, in a callback or in a "
                    "training_step",
                )
            self._filter = _filter_of(probe, settings.observation_filter)
            self._connectors = list(getattr(probe, "connectors", ()))
            self._changes_actions = settings.module_to_env_connector is not None
            self._learner_connectors = self._made_learner_connectors()
            specs = specs_of(settings.policies)
            # Recorded steps without an environment are those of one policy, which may have any name.
            is_named = settings.env is None and len(specs) == 1
            if not self.is_multi_agent and not is_named and list(specs) != [POLICY_ID]:
                raise ValueError(
                    f"policies={sorted(specs)}: the environment {settings.env!r} has one agent. Let "
                    "its class derive from ray.rllib.env.multi_agent_env.MultiAgentEnv, or leave "
                    "policies out."
                )
            spaces = AgentSpaces(probe, self._mapping)
            own = (self.observation_space, self.action_space)
            found = {
                name: spaces.of_policy(name, spec) if self.is_multi_agent else own
                for name, spec in specs.items()
            }
            if isinstance(settings.rl_module_spec, MultiRLModuleSpec):
                settings.rl_module_spec.take_spaces(found)
                self._learner_only = settings.rl_module_spec.learner_only(found)
            for name, spec in specs.items():
                self._plan(name, spec, *found[name])
        finally:
            close = getattr(probe, "close", None)
            if close is not None:
                close()

    @property
    def plans(self) -> Mapping[str, PolicyPlan]:
        """The parts of its policies, by name."""
        return self._plans

    def _check_agents(self) -> None:
        """Refuse an environment of several agents, where the algorithm has one policy."""

    def _made_learner_connectors(self) -> LearnerConnectors | None:
        function = self.config.learner_connector
        if function is None:
            return None
        made = LearnerConnectors.of(function(self.observation_space, self.action_space))
        if made is not None and not self.learns_from_samples:
            raise UnsupportedRayFeatureError(
                f"learner_connector in {type(self).__name__}",
                "The steps that it learns from are not samples of env runners",
                "use PPO, IMPALA, APPO, DQN or SAC",
            )
        return made

    def _plan(
        self, name: str, spec: PolicySpec, observation_space: Space, action_space: Space
    ) -> None:
        """Plan one policy: one that learns, or the rule of a user."""
        policy_class = spec.policy_class or self.get_default_policy_class(self.config)
        config, rule = self.config.of_policy(name, replace(spec, policy_class=policy_class))
        if rule is not None:
            self._plans[name] = PolicyPlan(
                rule.cls, None, observation_space, action_space, options=rule.options
            )
            return
        setup = PolicySetup(
            config, observation_space, action_space, self._filter, self._learner_only
        )
        base = self._learner_class_of(config)
        if self.can_train(base):
            self._able_to_learn.append(name)
        if base is None:
            from raycompat.rllib.episode_learner import EpisodeLearner

            base = EpisodeLearner
        elif config.learns_in_torch():
            base = base.for_modules()
        cls = self._learner_classes[name] = upper("_old.rllib.losses").learner_with(
            base, policy_class, setup.custom_class(), setup.distribution()
        )
        self._setups[name] = setup
        self._plans[name] = setup.plan(cls.policy_class, cls.network_of(setup))

    @classmethod
    def get_default_policy_class(cls, config: AlgorithmConfig) -> Any:
        """Return the class of policies that do not name one; None for that of the algorithm.

        Parameters
        ----------
        config : AlgorithmConfig
        """
        return None

    def _learner_class_of(self, config: AlgorithmConfig) -> Any:
        """Return what learns for a policy: that of another algorithm where its class says so."""
        named = config.algo_class
        is_own = isinstance(config, self.config_class) or named is None
        return self.learner_class if is_own or named is None else named.learner_class

    def can_train(self, learner_class: Any) -> bool:
        """Return whether this algorithm lets a learner learn: one of another algorithm acts only."""
        return self.learner_class is None or issubclass(learner_class, self.learner_class)

    def is_trained(self, name: str) -> bool:
        """Return whether a policy learns."""
        return name in self._trained

    def to_learn(self, samples: list[Sample]) -> dict[str, list[Columns]]:
        """Return the columns of samples for each policy that learns and has a valid step."""
        found: dict[str, list[Columns]] = {}
        for sample in samples:
            for name, columns in sample.policies.items():
                if name in self._trained:
                    own = self._connected(name, columns, sample.custom_data)
                    found.setdefault(name, []).append(own)
        if self._shows_batches:
            for name, parts in found.items():
                result = self._of_batches.setdefault(name, {})
                self.call_hooks(
                    "on_learn_on_batch",
                    policy=self.get_policy(name),
                    train_batch=_batch_of(parts, self._acting[name]),
                    result=result,
                )
        return found

    def _connected(self, name: str, columns: Columns, custom_data: Any) -> Columns:
        """Return the columns of a policy as the connectors of its learner leave them."""
        plan, found = self._plans[name], columns
        spaces = plan.observation_space, plan.action_space
        for each in (self._learner_connectors, self.learners[name].connectors):
            if each is not None:
                found = each(name, found, spaces, custom_data)
        added = sorted(set(found) - set(columns))
        if added and not hasattr(self.learners[name], "torch_learner"):
            raise UnsupportedRayFeatureError(
                f"The columns {added}, which learner connectors add,",
                f"The loss of {type(self).__name__} has no use for them",
                "give config.training(learner_class=...) a loss in PyTorch that reads them",
            )
        return found

    def learn_from(self, samples: list[Sample], *more: object) -> dict[str, Metrics]:
        """Let each policy learn from its part of samples; return what it has to say.

        Parameters
        ----------
        samples : list of Sample
        *more
            Of the learners' ``learn``, after the columns and the number of all steps.
        """
        with self._timed("learner_update_timer"):
            return {
                name: self.learners[name].learn(parts, self.num_steps, *more)
                for name, parts in self.to_learn(samples).items()
            }

    def _affordable(self, wanted: int) -> int:
        """Return how many runners the cluster has room for; more would wait without limit."""
        if not wanted:
            return 0
        cpus = self.config.num_cpus_per_env_runner
        least = 1 if self.trial_resources is None else 0
        return num_affordable(wanted, self.num_cpus_of_runners(), cpus, least)

    def num_cpus_of_runners(self) -> float:
        """Return how many CPUs runners may have: those of the trial, or of the cluster."""
        request = self.trial_resources
        if request is not None:
            others = request.bundles if request.head_bundle_is_empty else request.bundles[1:]
            return float(sum(each.get("CPU", 0) for each in others))
        if not ray.is_initialized():
            ray.init()
        return float(ray.cluster_resources().get("CPU", 0))

    def _make_group(self, num_runners: int, num_envs: int) -> RunnerGroup:
        spec = self.runner_spec(num_runners, num_envs)
        make = partial(self._runner_class(), spec)
        group = RunnerGroup(make, num_runners, GroupOptions.of(self.config))
        group.state_of = self.runner_state
        return group

    def _runner_class(self) -> Callable[..., Any]:
        if self.config.plays_elsewhere:
            found: Callable[..., object] = self.config.env_runner_cls
            return found
        return self.multi_agent_runner_class if self.is_multi_agent else self.runner_class

    def runner_spec(self, num_runners: int, num_envs: int) -> EnvRunnerSpec:
        """Return what runners play by, for their number and that of environments in each."""
        settings, is_watched = self.config, self.config.watches_episodes()
        fragment = settings.rollout_fragment_length
        return EnvRunnerSpec(
            create=self.create_env,
            described=settings.env,
            env_config=dict(settings.env_config),
            num_envs=num_envs,
            num_runners=num_runners,
            policies=self._plans,
            seed=self._seed,
            clip_rewards=settings.clip_rewards or False,
            restarts_environments=settings.restart_failed_sub_environments,
            make_hooks=partial(with_writer, settings.hooks, settings.output)
            if is_watched
            else None,
            make_action_connectors=self._make_action_connectors(),
            config=settings if is_watched or settings.plays_elsewhere else None,
            policy_mapping_fn=self._mapping,
            observation_fn=settings.observation_fn,
            horizon=settings.horizon,
            keeps_next_observations=self._learner_connectors is not None
            or settings.class_of_learner() is not None,
            shows_handles=bool(settings.remote_worker_envs),
            for_programs={
                "explores": bool(settings.explore),
                **({} if isinstance(fragment, str) else {"fragment": fragment}),
            },
        )

    def _make_action_connectors(self) -> Callable[[Environments], ActionConnectors] | None:
        make = self.config.module_to_env_connector
        if make is None:
            return None
        if self.is_multi_agent:
            raise UnsupportedRayFeatureError(
                "module_to_env_connector for several agents",
                "Connectors change the actions of one agent",
                "change actions in the environment",
            )
        return partial(ActionConnectors, make)

    # What subclasses give.

    @abstractmethod
    def training_step(self) -> dict[str, Metrics]:
        """Sample and learn once; return what each policy's learning has to say."""

    def weights_changed(self) -> None:
        """Take note that weights were replaced."""

    def exploration(self) -> float:
        """Return the chance of a random action now."""
        return 0.0

    # Playing.

    @property
    def num_steps(self) -> int:
        """The number of steps played so far."""
        return self._episodes.num_steps

    def runner_state(self) -> RunnerState:
        """Return weights, statistics and the chance of random actions, which runners play by."""
        weights = {name: learner.get_weights() for name, learner in self.learners.items()}
        statistics = {name: acting.filter.statistics for name, acting in self._acting.items()}
        return RunnerState(weights, statistics, self.exploration())

    def sample(self, num_steps: int) -> list[Sample]:
        """Let the runners sample at least this number of steps together; count episodes and steps."""
        group = self.env_runner_group
        per_env = math.ceil(num_steps / (len(group) * self.config.num_envs_per_env_runner))
        state = self.runner_state()
        given = ray.put(state) if group.is_remote else state
        with self._timed("env_runner_sampling_timer"):
            samples: list[Sample] = group.call_all("sample", per_env, given, self.config.explore)
        for sample in samples:
            self.count(sample)
        return samples

    def count(self, sample: Sample) -> None:
        """Count the steps, episodes and observations of a sample."""
        self._episodes.add(sample.episodes, sample.num_steps)
        for name, news in sample.news.items():
            statistics = self._acting[name].filter.statistics
            if news is not None and statistics is not None:
                statistics.merge(news)
        if sample.left is not None:
            self._records += sample.left.records
            self._logged.add(sample.left.logged)

    def _count_played(self, played: Any, path: tuple[str, ...]) -> None:
        """Count what runners have played for a program's `training_step`, or for its evaluation."""
        if path[:1] == ("evaluation",):
            for episode in played:
                for kind in ("mean", "min", "max"):
                    for name, value in (("return", episode.value), ("len", episode.length)):
                        key = (*path, f"episode_{name}_{kind}")
                        self.metrics.log_value(key, value, reduce=kind)
            steps = (*path, "num_env_steps_sampled")
            self.metrics.log_value(steps, played.num_steps, reduce="sum")
            return
        self._episodes.add(list(played), played.num_steps)
        key = ("env_runners", "num_env_steps_sampled_lifetime")
        self.metrics.log_value(key, played.num_steps, reduce="lifetime_sum")
        self.metrics.log_value(key[1], played.num_steps, reduce="lifetime_sum")

    @property
    def workers(self) -> RunnerGroup:
        """The env runners: the name until 2024."""
        return self.env_runner_group

    @property
    def env_runner(self) -> Any:
        """The env runner of this process; where others play, it is one that does not."""
        found = self.env_runner_group.local_env_runner
        if found.module is None:
            networks = self.learner_group._view.module
            found.module = networks if self.is_multi_agent else self.get_module()
        return found

    @property
    def eval_env_runner_group(self) -> RunnerGroup | None:
        """The env runners of evaluations; None before the first one."""
        return self._evaluation.group

    # Training.

    def step(self) -> Metrics:
        """Make one iteration; Tune and `train` call it."""
        settings = self.config
        begin, before = time.perf_counter(), self.num_steps
        self._episodes.begin_iteration()
        self._timers, self._records = {}, []
        while True:
            statistics, others = self._parts_of(self.training_step())
            seconds = time.perf_counter() - begin
            if (
                seconds >= (settings.min_time_s_per_iteration or 0)
                and self._episodes.num_new_steps >= settings.min_sample_timesteps_per_iteration
                and self.num_steps - before >= (settings.min_train_timesteps_per_iteration or 0)
            ):
                break
        self._timers["training_iteration"] = seconds
        for name, own in statistics.items():
            if of_model := self.learners[name].metrics_of_model():
                own["model"] = of_model
        for each in self.learners.values():
            statistics |= each.statistics_of_others()
        for name, metrics in self._of_batches.items():
            statistics.setdefault(name, {})["custom_metrics"] = dict(metrics)
        runners = {
            **self._logged.described(),
            **self._episodes.described(),
            "num_env_steps_sampled_per_second": self._episodes.num_new_steps / max(seconds, 1e-9),
        }
        result: Metrics = {
            "env_runners": runners,
            "learners": statistics,
            "num_env_steps_sampled_lifetime": self.num_steps,
            "num_healthy_workers": len(self.env_runner_group) * self.env_runner_group.is_remote,
            "num_env_runner_restarts": self.env_runner_group.num_restarts,
            "timers": dict(self._timers),
        }
        if settings.watches_episodes():
            result |= describe_records(self._records, settings.keep_per_episode_custom_metrics)
        interval = settings.evaluation_interval
        if interval and (self.iteration + 1) % interval == 0:
            result["evaluation"] = self.evaluate()
        self._tell_of_recreated()
        self._counters["num_env_steps_sampled"] = self.num_steps
        self._own.add(self.metrics.take())
        found = self._last_result = with_old_names(merge_dicts(self._own.described(), result))
        found["info"]["learner"] |= others
        if settings.env_task_fn is not None:
            self.env_runner_group.call_all("set_tasks", settings.env_task_fn, found)
        return found

    def _parts_of(self, found: Any) -> tuple[dict[str, Metrics], Metrics]:
        """Return what each policy's learning has to say, and what else a `training_step` returned.

        One of a program may return nothing, or results that it has logged, too. Others were among
        those of learning until new programs only logged them.

        Raises
        ------
        ValueError
            When a program of today returned results that it has not logged.
        """
        known = self.learners if self.joined_learner is None else {}
        given = {} if found is None else found
        if isinstance(given, Mapping):
            others = {n: v for n, v in given.items() if n not in known and not self.metrics.has(n)}
            if not others or era.is_within("2.39"):
                return {name: given[name] for name in known if name in given}, others
            shown, name = list(others), next(iter(others))
        else:
            shown, name = given, "my_result"
        raise ValueError(
            f"training_step() of {type(self).__name__} has returned {shown!r}, which no result would "
            f"have. Log it: self.metrics.log_value({name!r}, ...), and return None."
        )

    def _tell_of_recreated(self) -> None:
        """Let callbacks know of runners that were replaced."""
        groups = [(self.env_runner_group, False), (self._evaluation.group, True)]
        for group, is_evaluation in groups:
            indices = [] if group is None else group.take_recreated()
            if indices:
                self.call_hooks(
                    "on_env_runners_recreated",
                    env_runner_group=group,
                    env_runner_indices=indices,
                    worker_set=group,
                    worker_ids=indices,
                    is_evaluation=is_evaluation,
                )

    def train(self) -> ResultDict:
        """Make one iteration.

        Returns
        -------
        ResultDict
            ``env_runners`` (``episode_return_mean``, ``num_episodes`` ...), ``learners``, ``timers``
            and, when there was one, ``evaluation``; also by the old names, such as
            ``episode_reward_mean``, ``timesteps_total`` and ``info``. Keys are attributes, too.

        Raises
        ------
        FloatingPointError
            When a loss became NaN.
        EnvError
            When the environment keeps failing.
        """
        result = super().train()
        result["config"] = self.config.to_dict()
        self.call_hooks("on_train_result", result=result)
        if self.trial_id == "default":  # Tune shows its trials itself
            self._show(result)
        return ResultDict(result)

    def _show(self, result: Metrics) -> None:
        """Report an iteration to the dashboard."""
        if self._shown is None:
            env = self.config.env
            name = f"{type(self).__name__} on {getattr(env, '__name__', env)}"
            self._shown = Experiment(name, metric="episode_return_mean", kind="RLlib")
            parameters = {each: getattr(self.config, each, "") for each in _SHOWN_SETTINGS}
            self._shown.trial("run", "RUNNING", parameters)
        figures = {
            **{each: result["env_runners"].get(each) for each in _SHOWN_OF_RUNNERS},
            **_flat(result["learners"]),
            "runners": result["num_healthy_workers"],
            "runners started again": result["num_env_runner_restarts"],
            "steps": result["num_env_steps_sampled_lifetime"],
        }
        self._shown.report("run", self.iteration, figures)

    @forms.takes_old_options("ray.rllib.algorithms.algorithm.Algorithm.evaluate")
    def evaluate(self) -> Metrics:
        """Play whole episodes without exploring.

        Returns
        -------
        dict
            ``env_runners`` with the mean, minimum and maximum of returns and lengths.
        """
        return self._evaluation.run()

    def _timed(self, name: str) -> _Timer:
        return _Timer(self._timers, name)

    def call_hooks(self, name: str, **given: object) -> None:
        """Call the callbacks, with the names of today and of their time."""
        of_its_time = {"trainer": self, "metrics_logger": self.metrics, "agent": self}
        for hook in self._hooks:
            call_hook(getattr(hook, name), {**of_its_time, "algorithm": self, **given})

    # Acting.

    @forms.takes_old_options("ray.rllib.algorithms.algorithm.Algorithm.compute_single_action")
    def compute_single_action(
        self,
        observation: Observation,
        state: Any = None,
        *,
        prev_action: Action = None,
        prev_reward: float | None = None,
        policy_id: str = POLICY_ID,
        explore: bool | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """Return the action for one observation.

        Parameters
        ----------
        observation : object
            Of the policy's observation space.
        state : list, optional
            Of a network with a memory, or of a rule of a user: what it returned last. Default: an
            episode begins.
        prev_action : object, optional
            The last action, where the network sees it.
        prev_reward : float, optional
            The last reward, where the network sees it.
        policy_id : str, default "default_policy"
            Which policy acts.
        explore : bool, optional
            Draw the action, instead of taking the best; by default as the config says.
        full_fetch : bool, default False
            Return a tuple of action, states and a dict, the form for policies with a state.

        Returns
        -------
        object
            Of the policy's action space.

        Raises
        ------
        ValueError
            When there is no such policy.
        """
        explore = bool(self.config.explore if explore is None else explore)
        acting = self._acting.get(policy_id)
        if acting is None:
            raise ValueError(
                f"policy_id={policy_id!r}: the policies of this algorithm are {sorted(self._acting)}."
            )
        if isinstance(acting, ActingRule):
            observations = acting.observe([observation], update=False)
            states = [acting.initial_state() if state is None else list(state)]
            actions, states = acting.choose(observations, states, explore)
            return (actions[0], states[0], {}) if full_fetch or state is not None else actions[0]
        memory, memories = acting.memory, None
        if memory is not None and (state or prev_action is not None or prev_reward is not None):
            past = None if prev_action is None else acting.decode.encoded(prev_action)
            memories = memory.before(state or memory.initial, past, prev_reward)
        observations = acting.observe([observation], update=False, memories=memories)
        acting.policy.set_weights(self.learners[policy_id].get_weights())
        acting.policy.set_exploration(self.exploration())
        found, extras = acting.act(observations, self._rng, explore)
        left = extras.pop("memories", None)
        action = acting.decode(found)[0]
        if full_fetch or state is not None:
            following = [] if memory is None or left is None else memory.parted(left[0])
            if memory is not None and memory.are_windows(state or ()):
                following = [window[-1] for window in following[:-1]]
            names = upper("_old.rllib.sample_batch").NAMES
            return action, following, {names.get(n, n): column[0] for n, column in extras.items()}
        return action

    def compute_action(self, observation: Observation, *args: object, **kwargs: Any) -> Any:
        """Return the action for one observation; the name of `compute_single_action` until 2020."""
        return self.compute_single_action(observation, *args, **kwargs)

    @forms.takes_old_options("ray.rllib.algorithms.algorithm.Algorithm.compute_actions")
    def compute_actions(
        self,
        observations: Mapping[AgentID, Observation],
        state: Mapping[AgentID, Any] | None = None,
        *,
        prev_action: Sequence[Action] | None = None,
        prev_reward: Sequence[float] | None = None,
        policy_id: str = POLICY_ID,
        explore: bool | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """Return the actions for several observations, by the same keys.

        Parameters
        ----------
        observations : dict
            Of the policy's observation space.
        state : dict, optional
            Of a network with a memory: what the call before returned, by the same keys.
        prev_action, prev_reward : sequence, optional
            The last actions and rewards, in the order of the observations.
        policy_id : str, default "default_policy"
            Which policy acts.
        explore : bool, optional
            See `compute_single_action`.
        full_fetch : bool, default False
            Return a tuple, also without states.

        Returns
        -------
        dict, or (dict, dict, dict)
            The actions; with `state`, also the states and what the network gave for the actions: an
            array by name, with one row for each observation.
        """
        found = {
            key: self.compute_single_action(
                each,
                None if state is None else state.get(key),
                prev_action=None if prev_action is None else prev_action[place],
                prev_reward=None if prev_reward is None else prev_reward[place],
                policy_id=policy_id,
                explore=explore,
                full_fetch=True,
            )
            for place, (key, each) in enumerate(observations.items())
        }
        actions = {key: action for key, (action, _, _) in found.items()}
        if state is None and not full_fetch:
            return actions
        extras = [each for _, _, each in found.values()]
        columns = {name: np.stack([each[name] for each in extras]) for name in extras[0]}
        return actions, {key: states for key, (_, states, _) in found.items()}, columns

    def get_policy(self, policy_id: str = POLICY_ID) -> PolicyOfAlgorithm:
        """Return one of the policies, to act by it, or to read or replace its weights.

        Parameters
        ----------
        policy_id : str, default "default_policy"

        Raises
        ------
        ValueError
            When there is no such policy.
        """
        if policy_id not in self._plans:
            raise ValueError(
                f"policy_id={policy_id!r}: the policies of this algorithm are {sorted(self._plans)}."
            )
        return PolicyOfAlgorithm(self, policy_id, self._plans[policy_id])

    def get_module(self, module_id: str = POLICY_ID) -> Any:
        """Return the network of a policy as a Keras model; None where it is none.

        Raises
        ------
        ValueError
            When there is no such policy.
        """
        return self.get_policy(module_id).model

    def get_weights(self, policies: Iterable[str] | None = None) -> dict[str, Weights]:
        """Return the weights of the policies, lists of arrays, by name.

        Parameters
        ----------
        policies : iterable of str, optional
            Default: all.
        """
        names = self.learners if policies is None else policies
        return {name: self.learners[name].get_weights() for name in names}

    def set_weights(self, weights: Mapping[str, Weights]) -> None:
        """Replace the weights of policies by what `get_weights` returned.

        Raises
        ------
        ValueError
            When a policy does not exist, or has other weights.
        """
        self._check_names(weights)
        for name, own in weights.items():
            self.learners[name].set_weights(own)
        self.weights_changed()

    # Ends.

    def cleanup(self) -> None:
        """End the runners."""
        if self._shown is not None:
            self._shown.end()
        for group in (getattr(self, "env_runner_group", None), self._evaluation.group):
            if group is not None:
                group.stop()

    @classmethod
    def default_resource_request(cls, config: Any) -> PlacementGroupFactory:
        """Return the resources of a trial: one bundle for the algorithm, one for each runner."""
        if isinstance(config, Mapping):  # it may be that of a function which makes the algorithm
            names = cls.config_class.names()
            config = {key: value for key, value in config.items() if RENAMED.get(key, key) in names}
        settings = cls._config_of(config)
        wanted, cpus = settings.num_env_runners, settings.num_cpus_per_env_runner
        main = settings.num_cpus_for_main_process
        evaluating = settings.evaluation_num_env_runners if settings.evaluation_interval else 0
        if (wanted or evaluating) and ray.is_initialized():
            left = ray.cluster_resources().get("CPU", 0) - main
            wanted = num_affordable(wanted, left, cpus) if wanted else 0
            evaluating = (
                num_affordable(evaluating, left - wanted * cpus, cpus, 0) if evaluating else 0
            )
        wanted += evaluating
        runner = {"CPU": cpus, "GPU": settings.num_gpus_per_env_runner}
        runner = {k: v for k, v in runner.items() if v} | settings.custom_resources_per_env_runner
        own = {"CPU": main, **settings.custom_resources_for_main_process}
        return PlacementGroupFactory([own, *([runner] * wanted)])


class _Timer:
    """Adds the seconds of a block to a timer."""

    def __init__(self, timers: dict[str, float], name: str) -> None:
        self._timers, self._name = timers, name

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, *exc_info: object) -> None:
        before = self._timers.get(self._name, 0.0)
        self._timers[self._name] = before + time.perf_counter() - self._begin


def _batch_of(parts: list[Columns], acting: ActingPolicy | ActingRule) -> Any:
    """Return the valid steps of samples as a batch for callbacks, which cannot be changed."""
    assert isinstance(acting, ActingPolicy), "nothing is learned of a rule"
    observed = ("observations", "next_observations")
    parts = [
        {n: acting.without_memory(each) if n in observed else each for n, each in columns.items()}
        for columns in parts
    ]
    names = set.intersection(*(set(each) for each in parts)) - {"valid"}
    old = upper("_old.rllib.sample_batch")
    made = old.SampleBatch(
        {
            old.NAMES.get(name, name): np.concatenate([each[name][each["valid"]] for each in parts])
            for name in sorted(names)
        }
    )
    made["dones"] = made["terminateds"] | made["truncateds"]
    for column in made.values():
        column.setflags(write=False)
    return made


def _flat(learners: Mapping[str, Mapping[str, object]]) -> Metrics:
    """Return figures of learning, with the policy's name before each where there are several."""
    if len(learners) == 1:
        (found,) = learners.values()
        return dict(found)
    return {f"{name}/{key}": v for name, each in learners.items() for key, v in each.items()}


def _filter_of(env: Env, chosen: object) -> Any:
    """Return the filter of observations: that among the environment's connectors, or the option."""
    connector = getattr(env, "observation_filter", None)
    if isinstance(connector, MeanStdFilterConnector):
        return partial(MeanStdFilter, clip=connector.clip_by_value)
    return chosen


def _with_horizon(
    create: Callable[[EnvContext], Env], horizon: int | None
) -> Callable[[EnvContext], Env]:
    if horizon is None:
        return create

    def limited(context: EnvContext) -> Env:
        env = create(context)
        if is_multi_agent(env):  # the runner counts its steps
            return env
        return gymnasium.wrappers.TimeLimit(of_today(env), horizon)

    return limited


__getattr__ = names_of(__name__)
