"""`Algorithm`: what all algorithms have: training, evaluation, acting and checkpoints."""

from __future__ import annotations

import logging
import math
import os
import pickle
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import cloudpickle
import gymnasium
import numpy as np

import raycompat as ray
from raycompat._old.gym.adapters import of_today
from raycompat._storage import Folder
from raycompat._surface.modules import names_of
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.algorithms.old_keys import RENAMED
from raycompat.rllib.env.construction import env_creator, make_env
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.env.env_runner import EnvRunner, EnvRunnerSpec, RunnerState, Sample
from raycompat.rllib.env.env_runner_group import GroupOptions, RunnerGroup
from raycompat.rllib.env.episode import (
    EpisodeRecord,
    LoggedMetrics,
    MetricsLogger,
    call_hook,
    describe_records,
)
from raycompat.rllib.filters import RunningStatistics, make_filter
from raycompat.rllib.networks import Head, NetworkSpec, Weights, default_filters
from raycompat.rllib.policies import StochasticPolicy
from raycompat.rllib.results import EpisodeStatistics, ResultDict, describe, with_old_names
from raycompat.rllib.spaces import ActionDecoder, ObservationEncoder
from raycompat.tune import PlacementGroupFactory, Trainable
from raycompat.util.tracking import Experiment

logger = logging.getLogger(__name__)

#: The file of a checkpoint with the weights and all else.
STATE_FILE = "algorithm_state.pkl"
POLICY_ID = "default_policy"


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


class Algorithm(Trainable):
    """An algorithm of reinforcement learning, with its policy and the processes that play.

    Subclasses give `network_spec`, `training_step`, `get_learner_state` and `set_learner_state`.

    Parameters
    ----------
    config : AlgorithmConfig or dict, optional
        The options; a dict may have old names.
    env : str, class or callable, optional
        In place of the config's.
    logger_creator : optional
        Has no effect: Tune writes the logs.

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
    policy_class: ClassVar[type[Any]] = StochasticPolicy
    runner_class: ClassVar[type[Any]] = EnvRunner
    #: Options in place of those of `config_class`; for classes of earlier Rays.
    default_options: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        config: AlgorithmConfig | Mapping[str, Any] | str | None = None,
        env: Any = None,
        logger_creator: Any = None,
        *,
        registry: Any = None,
        storage: Any = None,
    ) -> None:
        if isinstance(config, str):  # the form of Ray 0.2: name and config
            config, env = env, config
        super().__init__({"config": config, "env": env}, storage=storage)

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        """Return the options that count where others are not given."""
        return cls.config_class(cls).update_from_dict(cls.default_options)

    @classmethod
    def _config_of(cls, given: Any, env: Any = None) -> AlgorithmConfig:
        if isinstance(given, AlgorithmConfig):
            config = given.copy(copy_frozen=False)
        elif given is None or isinstance(given, Mapping):
            config = cls.get_default_config().update_from_dict(given or {})
        else:
            raise TypeError(f"config={given!r}: expected a dict or an AlgorithmConfig.")
        return config if env is None else config.environment(env)

    # Setting up.

    def setup(self, config: dict[str, Any]) -> None:
        """Make the environments, the policy and the runners."""
        self.config: Any = self._config_of(config["config"], config["env"])
        self.config.validate()
        self.config.freeze()
        settings = self.config
        self._seed = int.from_bytes(os.urandom(3)) if settings.seed is None else int(settings.seed)
        self._rng = np.random.default_rng([self._seed, 0])
        #: Returns an environment for an `EnvContext`.
        self.create_env = _with_horizon(env_creator(settings.env), settings.horizon)
        probe = make_env(self.create_env, EnvContext(settings.env_config, 0), settings.env)
        self.observation_space, self.action_space = _spaces(probe)
        self._encode = ObservationEncoder(self.observation_space)
        self._decode = ActionDecoder(
            self.action_space, settings.normalize_actions, settings.clip_actions
        )
        self._network = self.network_spec()
        self._policy = self.policy_class(self._network, self._decode.is_discrete)
        self._filter = make_filter(settings.observation_filter, self._encode.shape)
        self._episodes = EpisodeStatistics(settings.metrics_num_episodes_for_smoothing)
        self._timers: dict[str, float] = {}
        self._evaluation_group: RunnerGroup | None = None
        #: What the dashboard shows; made by the first `train` outside of Tune.
        self._shown: Experiment | None = None
        self._hooks = settings.hooks()
        self._records: list[EpisodeRecord] = []
        self._logged = LoggedMetrics()
        self._logger = MetricsLogger()
        self.env_runner_group = self._make_group(
            self._affordable(settings.num_env_runners), settings.num_envs_per_env_runner
        )
        self.setup_learner()
        self._call_hooks("on_algorithm_init")

    def _affordable(self, wanted: int) -> int:
        """Return how many runners the cluster has room for; more would wait without limit."""
        if not wanted:
            return 0
        cpus = self.config.num_cpus_per_env_runner
        request = self.trial_resources
        if request is not None:
            others = request.bundles if request.head_bundle_is_empty else request.bundles[1:]
            return _scaled(wanted, sum(each.get("CPU", 0) for each in others), cpus, least=0)
        if not ray.is_initialized():
            ray.init()
        return _scaled(wanted, ray.cluster_resources().get("CPU", 0), cpus)

    def _make_group(self, num_runners: int, num_envs: int) -> RunnerGroup:
        spec = self._runner_spec(num_runners, num_envs)
        settings = self.config
        options = GroupOptions(
            num_cpus=settings.num_cpus_per_env_runner,
            num_gpus=settings.num_gpus_per_env_runner,
            resources=settings.custom_resources_per_env_runner,
            restarts=settings.restart_failed_env_runners,
            ignores_failures=settings.ignore_env_runner_failures,
            max_restarts=settings.max_num_env_runner_restarts,
            timeout_s=settings.sample_timeout_s,
        )
        return RunnerGroup(partial(_make_runner, self.runner_class, spec), num_runners, options)

    def _runner_spec(self, num_runners: int, num_envs: int) -> EnvRunnerSpec:
        settings = self.config
        return EnvRunnerSpec(
            create=self.create_env,
            described=settings.env,
            env_config=dict(settings.env_config),
            num_envs=num_envs,
            num_runners=num_runners,
            policy_class=self.policy_class,
            network=self._network,
            seed=self._seed,
            observation_filter=settings.observation_filter,
            normalize_actions=settings.normalize_actions,
            clip_actions=settings.clip_actions,
            clip_rewards=settings.clip_rewards or False,
            restarts_environments=settings.restart_failed_sub_environments,
            make_hooks=settings.hooks if settings.watches_episodes() else None,
        )

    def body_options(self) -> dict[str, Any]:
        """Return the settings of the layers below the heads, from the model's options."""
        model, shape = self.config.model, self._encode.shape
        trunk = None
        if model["custom_model"] is not None:
            from raycompat.rllib.models.catalog import custom_trunk

            trunk = custom_trunk(model["custom_model"], model["custom_model_config"])
        given = model["conv_filters"]
        filters = default_filters(shape) if given is None else tuple(map(tuple, given))
        return {
            "observation_shape": shape,
            "activation": model["fcnet_activation"],
            "conv_filters": filters,
            "custom_trunk": trunk,
        }

    def actor_critic_spec(self) -> NetworkSpec:
        """Return a network with the heads ``policy`` and ``value``.

        They share layers if the model's option says so, or if there are filters or a custom model.
        """
        body, model = self.body_options(), self.config.model
        hiddens = tuple(model["fcnet_hiddens"])
        shares = bool(
            model["vf_share_layers"] or body["conv_filters"] or body["custom_trunk"] is not None
        )
        own = () if shares else hiddens
        num_outputs = self._decode.num_choices * (1 if self._decode.is_discrete else 2)
        heads = (Head("policy", num_outputs, own, 0.01), Head("value", 1, own, 1.0))
        return NetworkSpec(heads=heads, trunk=hiddens if shares else (), **body)

    # What subclasses give.

    @abstractmethod
    def network_spec(self) -> NetworkSpec:
        """Return the network of the policy."""

    @abstractmethod
    def setup_learner(self) -> None:
        """Make what learns."""

    @abstractmethod
    def training_step(self) -> dict[str, Any]:
        """Sample and learn once; return the learning part of the result."""

    @abstractmethod
    def get_learner_state(self) -> dict[str, Any]:
        """Return what learns, the weights under the key ``weights`` among it."""

    @abstractmethod
    def set_learner_state(self, state: dict[str, Any]) -> None:
        """Take what `get_learner_state` returned."""

    @abstractmethod
    def current_weights(self) -> Weights:
        """Return the weights of the policy."""

    @abstractmethod
    def set_current_weights(self, weights: Weights) -> None:
        """Replace the weights of the policy."""

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
        statistics = self._filter.statistics
        return RunnerState(self.current_weights(), statistics, self.exploration())

    def sample(self, num_steps: int) -> list[Sample]:
        """Let the runners sample at least this number of steps together; count episodes and steps."""
        group = self.env_runner_group
        per_env = math.ceil(num_steps / (len(group) * self.config.num_envs_per_env_runner))
        state = self.runner_state()
        told = ray.put(state) if group.is_remote else state
        with self._timed("env_runner_sampling_timer"):
            samples: list[Sample] = group.call_all("sample", per_env, told, self.config.explore)
        for sample in samples:
            self.count(sample)
        return samples

    def count(self, sample: Sample) -> None:
        """Count the steps, episodes and observations of a sample."""
        self._episodes.add(sample.episodes, sample.num_steps)
        if sample.news is not None and self._filter.statistics is not None:
            self._filter.statistics.merge(sample.news)
        if sample.left is not None:
            self._records += sample.left.records
            self._logged.add(sample.left.logged)

    # Training.

    def step(self) -> dict[str, Any]:
        """Make one iteration; Tune and `train` call it."""
        settings = self.config
        begin = time.perf_counter()
        self._episodes.begin_iteration()
        self._timers, self._records = {}, []
        while True:
            statistics = self.training_step()
            seconds = time.perf_counter() - begin
            if (
                seconds >= (settings.min_time_s_per_iteration or 0)
                and self._episodes.num_new_steps >= settings.min_sample_timesteps_per_iteration
            ):
                break
        self._timers["training_iteration"] = seconds
        runners = {
            **self._logged.described(),
            **self._episodes.described(),
            "num_env_steps_sampled_per_second": self._episodes.num_new_steps / max(seconds, 1e-9),
        }
        result: dict[str, Any] = {
            "env_runners": runners,
            "learners": {POLICY_ID: statistics},
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
        return with_old_names(result)

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
        self._call_hooks("on_train_result", result=result)
        self._logged.add(self._logger.take())
        if self.trial_id == "default":  # Tune shows its trials itself
            self._show(result)
        return ResultDict(result)

    def _show(self, result: dict[str, Any]) -> None:
        """Report an iteration to the dashboard."""
        if self._shown is None:
            env = self.config.env
            name = f"{type(self).__name__} on {getattr(env, '__name__', env)}"
            self._shown = Experiment(name, metric="episode_return_mean", kind="RLlib")
            parameters = {each: getattr(self.config, each, "") for each in _SHOWN_SETTINGS}
            self._shown.trial("run", "RUNNING", parameters)
        figures = {
            **{each: result["env_runners"].get(each) for each in _SHOWN_OF_RUNNERS},
            **result["learners"][POLICY_ID],
            "runners": result["num_healthy_workers"],
            "runners started again": result["num_env_runner_restarts"],
            "steps": result["num_env_steps_sampled_lifetime"],
        }
        self._shown.report("run", self.iteration, figures)

    def evaluate(self) -> dict[str, Any]:
        """Play whole episodes without exploring.

        Returns
        -------
        dict
            ``env_runners`` with the mean, minimum and maximum of returns and lengths.
        """
        settings = self.config
        self._call_hooks("on_evaluate_start")
        changes = dict(settings.evaluation_config or {})
        if self._evaluation_group is None:
            self._evaluation_group = self._make_evaluation_group(changes)
        group = self._evaluation_group
        state = self.runner_state()
        state.epsilon = 0.0
        each = math.ceil(settings.evaluation_duration / len(group))
        answers = group.call_all("play_episodes", each, state, bool(changes.get("explore")))
        episodes = [episode for answer in answers for episode in answer]
        found: dict[str, Any] = {
            "env_runners": {**describe(episodes), "num_episodes": len(episodes)}
        }
        if settings.watches_episodes():
            found |= self._left_in(group)
        self._call_hooks("on_evaluate_end", evaluation_metrics=found)
        return found

    def _left_in(self, group: RunnerGroup) -> dict[str, Any]:
        """Return what callbacks have left in the runners of an evaluation."""
        left = [each for each in group.call_all("take_left") if each is not None]
        records = [record for each in left for record in each.records]
        logged = LoggedMetrics()
        logged.add(value for each in left for value in each.logged)
        described = describe_records(records, self.config.keep_per_episode_custom_metrics)
        return {**logged.described(), **described}

    def _make_evaluation_group(self, changes: dict[str, Any]) -> RunnerGroup:
        unknown = sorted(set(changes) - {"explore", "env_config"})
        if unknown:
            raise ValueError(f"evaluation_config: {unknown}: expected 'explore' or 'env_config'.")
        spec = self._runner_spec(self.config.evaluation_num_env_runners, 1)
        spec.env_config.update(changes.get("env_config", {}))
        make = partial(_make_evaluation_runner, spec, 100)
        return RunnerGroup(make, self.config.evaluation_num_env_runners)

    def _timed(self, name: str) -> _Timer:
        return _Timer(self._timers, name)

    def _call_hooks(self, name: str, **given: Any) -> None:
        """Call the callbacks, with the names of today and of their time."""
        of_its_time = {"trainer": self, "metrics_logger": self._logger, "agent": self}
        for hook in self._hooks:
            call_hook(getattr(hook, name), {**of_its_time, "algorithm": self, **given})

    # Acting.

    def compute_single_action(self, observation: Any, *, explore: bool | None = None) -> Any:
        """Return the action for one observation.

        Parameters
        ----------
        observation : object
            Of the environment's observation space.
        explore : bool, optional
            Draw the action, instead of taking the best; by default as the config says.

        Returns
        -------
        object
            Of the environment's action space.
        """
        explore = self.config.explore if explore is None else explore
        observations = self._filter(self._encode([observation]), update=False)
        self._policy.set_weights(self.current_weights())
        self._policy.set_exploration(self.exploration())
        actions, _ = self._policy.act(observations, self._rng, bool(explore))
        return self._decode(actions)[0]

    def compute_action(self, observation: Any) -> Any:
        """Return the action for one observation; the name until 2020."""
        return self.compute_single_action(observation)

    def compute_actions(
        self, observations: Mapping[Any, Any], *, explore: bool | None = None
    ) -> dict[Any, Any]:
        """Return the actions for several observations, by the same keys."""
        return {
            key: self.compute_single_action(each, explore=explore)
            for key, each in observations.items()
        }

    def get_weights(self) -> dict[str, Weights]:
        """Return the policy's weights, a list of arrays, under ``default_policy``."""
        return {POLICY_ID: self.current_weights()}

    def set_weights(self, weights: Mapping[str, Weights]) -> None:
        """Replace the policy's weights by what `get_weights` returned."""
        self.set_current_weights(weights[POLICY_ID])

    # Checkpoints.

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the state into a folder."""
        state = self._whole_state()
        Path(checkpoint_dir, STATE_FILE).write_bytes(cloudpickle.dumps(state))

    def _whole_state(self) -> dict[str, Any]:
        return {
            "class": type(self),
            "config": self.config,
            "learner": self.get_learner_state(),
            "filter": self._filter.statistics,
            "episodes": self._episodes.get_state(),
            "rng": self._rng.bit_generator.state,
        }

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Take the state from a folder, or a dict."""
        state = checkpoint if isinstance(checkpoint, dict) else _read_state(Path(checkpoint))
        try:
            self.set_learner_state(state["learner"])
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"The checkpoint of {state['class'].__name__} does not fit {type(self).__name__} with "
                f"this network: {error}. Use {type(self).__name__}.from_checkpoint(path), which takes "
                "the config from the checkpoint, too."
            ) from error
        statistics: RunningStatistics | None = state["filter"]
        if statistics is not None:
            self._filter.statistics = statistics
        self._episodes.set_state(state["episodes"])
        self._rng.bit_generator.state = state["rng"]
        self._call_hooks("on_checkpoint_loaded")

    def save_to_path(self, path: str | os.PathLike[str] | None = None) -> str:
        """Save the algorithm as a folder.

        Parameters
        ----------
        path : str or path-like, optional
            Local, or a URI that fsspec knows. By default a new temporary folder.

        Returns
        -------
        str
            The folder.
        """
        if path is None:
            path = tempfile.mkdtemp(prefix="checkpoint-")
        target = Folder(path)
        with tempfile.TemporaryDirectory() as local:
            self._write_checkpoint(local)
            Folder(os.path.dirname(target.path), target.filesystem).upload(
                local, os.path.basename(target.path)
            )
        return target.uri

    def restore_from_path(self, path: str | os.PathLike[str]) -> None:
        """Continue from a folder of `save_to_path`.

        Raises
        ------
        ValueError
            When the checkpoint is missing, damaged, or of another network.
        """
        with tempfile.TemporaryDirectory() as local:
            source = Folder(path)
            if not source.exists(STATE_FILE):
                raise ValueError(
                    f"{source.uri} is not a checkpoint of an algorithm: expected the file "
                    f"{STATE_FILE} in it. Pass what save_to_path() returned."
                )
            source.download(local)
            self.restore(local)

    @classmethod
    def from_checkpoint(cls, path: Any, **options: Any) -> Self:
        """Return the algorithm of a checkpoint, with its config.

        Parameters
        ----------
        path : str, path-like or Checkpoint
            What `save_to_path` or `save` returned. It is unpickled: it must come from a trusted
            source.
        **options
            In place of the checkpoint's.

        Raises
        ------
        ValueError
            When the checkpoint is missing, damaged, or of another algorithm.
        """
        path = getattr(path, "checkpoint", path)
        path = getattr(path, "path", path)
        with tempfile.TemporaryDirectory() as local:
            source = Folder(path)
            if source.exists(STATE_FILE):
                source.download(local)
            state = _read_state(Path(local) if source.exists(STATE_FILE) else Path(source.path))
        if not issubclass(state["class"], cls):
            raise ValueError(
                f"{path} is a checkpoint of {state['class'].__name__}, not {cls.__name__}."
            )
        algorithm: Self = state["class"](
            state["config"].copy(copy_frozen=False).update_from_dict(options)
        )
        algorithm.restore_from_path(path)
        return algorithm

    def save_to_object(self) -> bytes:
        """Return the whole state as bytes."""
        state: bytes = cloudpickle.dumps({**self._whole_state(), "counts": self.get_state()})
        return state

    def restore_from_object(self, obj: bytes) -> None:
        """Continue from a result of `save_to_object`, which must come from a trusted source."""
        state = pickle.loads(obj)
        self.load_checkpoint(state)
        self._set_state(state["counts"])

    # Ends.

    def cleanup(self) -> None:
        """End the runners."""
        if self._shown is not None:
            self._shown.end()
        for group in (getattr(self, "env_runner_group", None), self._evaluation_group):
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
        if wanted and ray.is_initialized():
            wanted = _scaled(wanted, ray.cluster_resources().get("CPU", 0) - main, cpus)
        runner = {"CPU": cpus, "GPU": settings.num_gpus_per_env_runner}
        runner = {k: v for k, v in runner.items() if v} | settings.custom_resources_per_env_runner
        return PlacementGroupFactory([{"CPU": main}, *([runner] * wanted)])


def _scaled(wanted: int, num_cpus: float, cpus_each: float, least: int = 1) -> int:
    most = max(least, int(num_cpus // cpus_each)) if cpus_each else wanted
    if wanted > most:
        logger.warning(
            "There are %g CPUs for env runners of %g each: %d run instead of %d (num_env_runners).",
            num_cpus,
            cpus_each,
            most,
            wanted,
        )
    return min(wanted, most)


class _Timer:
    """Adds the seconds of a block to a timer."""

    def __init__(self, timers: dict[str, float], name: str) -> None:
        self._timers, self._name = timers, name

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, *exc_info: object) -> None:
        before = self._timers.get(self._name, 0.0)
        self._timers[self._name] = before + time.perf_counter() - self._begin


def _make_runner(cls: type[Any], spec: EnvRunnerSpec, index: int, is_replacement: bool) -> Any:
    return cls(spec, index, is_replacement)


def _make_evaluation_runner(
    spec: EnvRunnerSpec, first: int, index: int, is_replacement: bool
) -> EnvRunner:
    return EnvRunner(spec, first + index, is_replacement)


def _with_horizon(
    create: Callable[[EnvContext], Any], horizon: int | None
) -> Callable[[EnvContext], Any]:
    if horizon is None:
        return create
    return lambda context: gymnasium.wrappers.TimeLimit(of_today(create(context)), horizon)


def _spaces(env: Any) -> tuple[Any, Any]:
    spaces = env.observation_space, env.action_space
    close = getattr(env, "close", None)
    if close is not None:
        close()
    return spaces


def _read_state(folder: Path) -> dict[str, Any]:
    path = folder / STATE_FILE
    if not path.exists():
        raise ValueError(
            f"{folder} is not a checkpoint of an algorithm: expected the file {STATE_FILE} in it. Pass "
            "what save_to_path() returned."
        )
    try:
        state: dict[str, Any] = pickle.loads(path.read_bytes())
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged, or of another version: it cannot be unpickled ({error}). Use an older "
            "checkpoint."
        ) from error
    return state


__getattr__ = names_of(__name__)
