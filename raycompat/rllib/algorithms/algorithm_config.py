"""`AlgorithmConfig`: the options of an algorithm, set group by group."""

from __future__ import annotations

import copy
import difflib
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, TypeVar

from raycompat._surface import era, forms
from raycompat._surface.modules import names_of
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Env, Space
from raycompat.rllib.algorithms.old_keys import (
    IN_DICTS,
    RENAMED,
    is_without_effect,
    learns_in,
    options_of_buffer,
    options_of_model,
    with_new_names,
)
from raycompat.rllib.algorithms.option_dict import OptionsByName
from raycompat.rllib.algorithms.option_groups import (
    ALSO,
    CHECKS,
    FIXED,
    GROUPS,
    IN_TWO_METHODS,
    MODEL,
    MODULE_OF_SERVER,
    MODULES_OF_RUNNERS,
    SCHEDULES,
    SIZES_OF_MODEL,
    is_positive_integer,
)
from raycompat.rllib.callbacks.callbacks import (
    HOOKS,
    OLD_HOOKS,
    RUNNER_HOOKS,
    RLlibCallback,
    overridden,
)
from raycompat.rllib.filters import FILTERS
from raycompat.rllib.fixed_policies import (
    MultiRLModuleSpec,
    RLModuleSpec,
    Rule,
    is_rule,
    is_torch_module,
    rule_of,
)
from raycompat.rllib.networks import ACTIVATIONS
from raycompat.rllib.policy_spec import (
    KnownSpaces,
    PolicySpec,
    specs_of,
)
from raycompat.rllib.schedules import check_schedule

if TYPE_CHECKING:
    from raycompat.rllib.env.construction import GivenEnv
    from raycompat.rllib.policy_spec import PolicySpec

logger = logging.getLogger(__name__)


#: Callbacks as programs give them: a class or several; until 2020 functions by the names of methods.
GivenCallbacks: TypeAlias = (
    Callable[[], RLlibCallback]
    | list[Callable[[], RLlibCallback]]
    | tuple[Callable[[], RLlibCallback], ...]
    | Mapping[str, Callable[..., object]]
)


class _NotProvided:
    """What stands for an option that a call leaves out."""

    def __repr__(self) -> str:
        return "NotProvided"


#: An option with this value is left as it is; programs' configs have it as a default.
NotProvided = _NotProvided()

# Algorithms are Any below: their module imports this one.


_AlgorithmT_co = TypeVar("_AlgorithmT_co", covariant=True)


class _OptionsOf(Protocol[_AlgorithmT_co]):
    """Options whose type says of which algorithm they are, so that `build_algo` has its type."""

    @property
    def algo_class(self) -> type[_AlgorithmT_co] | None: ...

    def copy(self) -> Any: ...


@forms.has_old_members("ray.rllib.algorithms.algorithm_config.AlgorithmConfig")
class AlgorithmConfig(OptionsByName):
    """Options of an algorithm, in groups.

    Each method sets options of one group and returns the config, so that calls follow one another.

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional
        What `build_algo` makes.

    Examples
    --------
    >>> from raycompat.rllib.algorithms.ppo import PPOConfig
    >>> options = PPOConfig().training(lr=0.0003, minibatch_size=64)
    >>> options = options.environment("Acrobot-v1")
    >>> options.lr, options["gamma"]
    (0.0003, 0.99)

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.algorithm_config.AlgorithmConfig``, 2.60.0. Differs from Ray: an
    unknown option raises in the call that sets it; options that have no effect here are refused. Values
    are checked by `validate`, which `build_algo` calls, so that they can be search spaces of Tune.
    """

    algo_class: type[Any] | None
    #: The only value that is taken; learners of programs ask for it.
    add_default_connectors_to_learner_pipeline: ClassVar[bool] = True
    #: Options of one algorithm's ``training``, with their defaults; they go before those of all.
    TRAINING: ClassVar[Mapping[str, Any]] = {}
    #: Whether it learns from recorded steps, and does not play.
    learns_from_records: ClassVar[bool] = False
    #: Under which name the table has options that this algorithm alone does not carry out.
    ROWS: ClassVar[str] = ""

    def __init__(self, algo_class: type[Any] | None = None) -> None:
        self.algo_class = algo_class
        for options in (*GROUPS.values(), self.TRAINING):
            for name, value in options.items():
                setattr(self, name, copy.deepcopy(value))
        self.model: dict[str, Any] = copy.deepcopy(MODEL)
        if _is_of_program(type(self)):  # it may make its networks by it
            self.framework_str = "torch"

    def __getattr__(self, name: str) -> Any:
        """Return an option by an old name; None for one of Ray's that has no effect here."""
        today = RENAMED.get(name, name)
        if today in self.__dict__:
            return self.__dict__[today]
        if is_without_effect(name, self.ROWS):
            return None
        raise AttributeError(f"{type(self).__name__!r} has no option {name!r}")

    # The groups.

    def environment(self, env: GivenEnv | None = None, **options: object) -> Self:
        """Set where the algorithm plays.

        Parameters
        ----------
        env : str, class or callable, optional
            A name that gymnasium knows or `tune.register_env` was given, the path of a class, a class,
            or a function of the environment's config.
        **options
            ``env_config`` (dict): what the environment is made with. ``observation_space`` and
            ``action_space`` (gymnasium.Space): of an algorithm that learns from recorded steps, and has
            no environment; others have the spaces of the environment. ``env_task_fn`` (function of a
            result, an environment and its config): returns the task that the environment, a
            `TaskSettableEnv`, has from then on. ``horizon`` (int): truncate episodes after so many
            steps. ``clip_rewards`` (bool or float): learn from the signs of rewards, or from rewards
            cut off at this size. ``normalize_actions`` (bool, default True): stretch -1 to 1 to the
            limits of a box. ``clip_actions`` (bool): cut actions off at them.
        """
        if env is not None:
            options["env"] = env
        return self._set("environment", options)

    def env_runners(self, **options: object) -> Self:
        """Set the processes that play.

        Parameters
        ----------
        **options
            ``num_env_runners`` (int): actors that play; 0 plays in the algorithm's process.
            ``num_envs_per_env_runner`` (int, default 1). ``num_cpus_per_env_runner`` (float, default
            1), ``num_gpus_per_env_runner``, ``custom_resources_per_env_runner`` (dict).
            ``rollout_fragment_length`` (int or "auto"): steps of each environment in one sample.
            ``sample_timeout_s`` (float, seconds, default 60; None is no limit): replace a runner that
            does not answer. ``observation_filter`` ("NoFilter", "MeanStdFilter", or a function of
            the observation's shape that returns a function of observations).
            ``env_to_module_connector`` (function of an environment): returns connectors, such as
            `FlattenObservations`, `FrameStackingEnvToModule` or `PrevActionsPrevRewards`.
            ``module_to_env_connector`` (function of an environment): returns connectors that change the
            actions of one agent, in samples and evaluations; a checkpoint has no `ModuleToEnvPipeline`
            then.
            ``explore`` (bool, default True): draw actions while training. ``remote_worker_envs``
            (bool): functions of programs call methods of environments with ``.remote()``; a runner
            steps its environments in its own process all the same. ``env_runner_cls`` (type):
            `EnvRunnerServerForExternalInference`, whose client plays; or `SingleAgentEnvRunner` or
            `MultiAgentEnvRunner`, which an algorithm takes by itself.
        """
        return self._set("env_runners", options)

    #: The name until 2024.
    rollouts = env_runners

    def exploration(self, **options: object) -> Self:
        """Set ``explore`` (bool) and ``exploration_config`` (dict): the form until 2024.

        Notes
        -----
        Ray source: ``ray.rllib.algorithms.algorithm_config.AlgorithmConfig.exploration``, 2.10.0.
        Differs from Ray: of ``exploration_config``, the options of an epsilon count.
        """
        forms.used(
            "ray.rllib.algorithms.algorithm_config.AlgorithmConfig.exploration()",
            refusal=AttributeError,
        )
        self._refuse_unknown("exploration", options, ("explore", "exploration_config"))
        return self.update_from_dict(options)

    def api_stack(
        self,
        enable_rl_module_and_learner: bool | None = None,
        enable_env_runner_and_connector_v2: bool | None = None,
    ) -> Self:
        """Choose one of Ray's two implementations; there is one here, which serves programs of both.

        Parameters
        ----------
        enable_rl_module_and_learner, enable_env_runner_and_connector_v2 : bool, optional
            They have no effect: options and results have the names of both.
        """
        for name, value in (
            ("enable_rl_module_and_learner", enable_rl_module_and_learner),
            ("enable_env_runner_and_connector_v2", enable_env_runner_and_connector_v2),
        ):
            if not isinstance(value, bool | None):
                raise TypeError(f"api_stack({name}={value!r}): expected True or False.")
        return self

    def training(self, **options: object) -> Self:
        """Set how the algorithm learns; the class of each algorithm lists its own options.

        Parameters
        ----------
        **options
            ``gamma`` (float, 0 to 1, default 0.99): the discount of rewards. ``lr`` (float, or points
            of a schedule). ``grad_clip`` (float): the largest norm of the gradients.
            ``train_batch_size_per_learner`` (int, steps), or ``train_batch_size``. ``model`` (dict):
            ``fcnet_hiddens`` (list of int, default [256, 256]), ``fcnet_activation`` (default "tanh"),
            ``conv_filters`` (list of [filters, side, step]), ``vf_share_layers`` (bool),
            ``free_log_std`` (bool: deviations of actions that do not depend on observations),
            ``custom_model``. ``use_lstm`` (bool): a long short-term memory of ``lstm_cell_size`` (int,
            default 256) cells above the dense layers, which may see the last action and reward
            (``lstm_use_prev_action``, ``lstm_use_prev_reward``). ``use_attention`` (bool): a gated
            transformer in its place, which attends to ``attention_memory_inference`` (int, default 50)
            steps. Networks with a memory learn from sequences of ``max_seq_len`` (int, default 20)
            steps. ``learner_connector`` (function of the spaces of observations and actions): returns
            connectors that change the rewards that are learned, in episodes of what was played, or add
            columns for a ``learner_class``.
            ``learner_class`` (subclass of `PPOTorchLearner` or `TorchLearner`): a loss of a
            program in PyTorch, for PPO; ``learner_config_dict`` (dict): options that it reads.
        """
        return self._set("training", options)

    def evaluation(self, **options: object) -> Self:
        """Set how the policy is tried without exploring.

        Parameters
        ----------
        **options
            ``evaluation_interval`` (int): after how many iterations. ``evaluation_duration`` (int,
            default 10) in ``evaluation_duration_unit`` ("episodes" by default; of "timesteps", the
            episodes count that have ended). ``evaluation_num_env_runners`` (int): actors for it.
            ``evaluation_config`` (dict): ``explore``, ``env``, ``env_config``, ``policies``,
            ``policy_mapping_fn`` and ``metrics_num_episodes_for_smoothing`` of evaluations.
            ``custom_evaluation_function`` (function of the algorithm and the runners of evaluations):
            evaluates in its own way, and returns a dict of metrics.
        """
        return self._set("evaluation", options)

    def reporting(self, **options: object) -> Self:
        """Set what an iteration is.

        Parameters
        ----------
        **options
            ``metrics_num_episodes_for_smoothing`` (int, default 100): of how many episodes means are.
            ``min_time_s_per_iteration`` (float, seconds), ``min_sample_timesteps_per_iteration`` (int).
            ``min_train_timesteps_per_iteration`` (int): of BC, CQL and MARWIL, steps that are learned.
            ``keep_per_episode_custom_metrics`` (bool): results have callbacks' metrics of each episode.
        """
        return self._set("reporting", options)

    def debugging(self, **options: object) -> Self:
        """Set the seed, and what loggers of a program read.

        Parameters
        ----------
        **options
            ``seed`` (int): the same seed gives the same numbers. ``logger_config`` (dict): a `Logger`
            in `LegacyLoggerCallback` finds it in its config; its key ``type`` makes no logger.
        """
        return self._set("debugging", options)

    def fault_tolerance(self, **options: object) -> Self:
        """Set what happens when processes and environments fail.

        Parameters
        ----------
        **options
            ``restart_failed_env_runners`` (bool, default True), ``max_num_env_runner_restarts`` (int,
            default 1000). ``ignore_env_runner_failures`` (bool): go on without them.
            ``restart_failed_sub_environments`` (bool, default False): drop the episode in which an
            environment raised, and make the environment again. By default training ends with the
            environment's own error. It also ends when an environment fails again and again.
        """
        return self._set("fault_tolerance", options)

    def callbacks(
        self,
        callbacks_class: GivenCallbacks | None = None,
        **hooks: Callable[..., object] | list[Callable[..., object]],
    ) -> Self:
        """Set the callbacks of training.

        Parameters
        ----------
        callbacks_class : subclass of RLlibCallback, or list of them, optional
        **hooks
            Functions, or lists of them, by the names of the methods of `RLlibCallback`.
        """
        self._check_hooks(hooks)
        if isinstance(callbacks_class, Mapping):
            forms.used("ray.rllib with callbacks as a dict")
            self._check_hooks(callbacks_class)
        if callbacks_class is not None:
            self.callbacks_class = callbacks_class or None
        for name, functions in hooks.items():
            setattr(self, f"callbacks_{name}", functions)
        return self

    @staticmethod
    def _check_hooks(names: Iterable[str]) -> None:
        for name in names:
            if OLD_HOOKS.get(name, name) not in HOOKS:
                raise UnsupportedRayFeatureError(
                    f"callbacks({name}=...)", alternative=f"Use one of {sorted(HOOKS)}"
                )

    def watches_episodes(self) -> bool:
        """Return whether a callback sees the episodes that runners play."""
        return bool(self.output) or any(overridden(hook, RUNNER_HOOKS) for hook in self.hooks())

    def rl_module(
        self, model_config: object = None, rl_module_spec: object = None, **options: object
    ) -> Self:
        """Set the network: ``model_config`` is what ``training(model=...)`` is.

        Parameters
        ----------
        model_config : dict, optional
        rl_module_spec : RLModuleSpec or MultiRLModuleSpec, optional
            Of one policy, or of several: their ``model_config``; a network of a program, a
            `TorchRLModule`; or a class that acts by a rule.
        **options
            ``algorithm_config_overrides_per_module`` (dict by policy): see `multi_agent`.
            ``model_config_dict`` (dict): the name of `model_config` until 2024.
        """
        options = with_new_names(options)
        if "model_config_dict" in options:  # the name until 2024
            model_config = options.pop("model_config_dict")
        self._set("rl_module", {"rl_module_spec": NotProvided, **options})
        if rl_module_spec is not None:
            self.rl_module_spec = rl_module_spec
        return self if model_config is None else self.training(model=_as_dict(model_config))

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return the network of a policy whose config names none.

        A program's class of options may return another one, which then learns.
        """
        return RLModuleSpec()

    def get_default_learner_class(self) -> Any:
        """Return what learns without the option ``learner_class``; None for the algorithm's learner.

        A program's class of options may return a subclass of `TorchLearner`, which then learns.
        """
        return None

    def class_of_learner(self) -> Any:
        """Return the class of a program that learns; None for the algorithm's."""
        return self.learner_class or self.get_default_learner_class()

    def get_rl_module_spec(
        self, env: Env | None = None, spaces: Any = None, inference_only: bool | None = None
    ) -> RLModuleSpec:
        """Return the network of the policy.

        Parameters
        ----------
        env : gymnasium.Env, optional
            Whose spaces the spec has.
        spaces : dict of tuples, optional
            Observation space and action space, under ``"default_policy"`` or ``"__env__"``.
        inference_only : bool, optional
            Whether the module will only act.
        """
        spec = copy.copy(self._spec_of_module() or self.get_default_rl_module_spec())
        known = dict(spaces or {})
        own = known.get("default_policy") or known.get("__env__")
        if own is None and env is not None:
            own = env.observation_space, env.action_space
        if own is None and self.observation_space is not None:
            own = self.observation_space, self.action_space
        if own is not None:
            spec.observation_space, spec.action_space = own
        spec.inference_only = bool(inference_only)
        if spec.model_config is None:
            spec.model_config = self.model
        return spec

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return how many steps of each environment a sample has.

        Parameters
        ----------
        worker_index : int, default 0
            Has no effect: with "auto", all runners play the same number, at least a batch together.
        """
        if self.rollout_fragment_length != "auto":
            return int(self.rollout_fragment_length)
        num_envs: int = self.num_envs_per_env_runner * (self.num_env_runners or 1)
        return math.ceil(self.train_batch_size / num_envs)

    @property
    def plays_elsewhere(self) -> bool:
        """Whether clients play, and env runners wait for their episodes."""
        return getattr(self.env_runner_cls, "__module__", "") == MODULE_OF_SERVER

    def _spec_of_module(self) -> Any:
        """Return the spec of the network; of a program's class of options, its default."""
        if self.rl_module_spec is not None:
            return self.rl_module_spec
        is_own = _is_of_program(type(self).get_default_rl_module_spec)
        return self.get_default_rl_module_spec() if is_own else None

    def learns_in_torch(self) -> bool:
        """Return whether a module or a learner of PyTorch learns, in place of a Keras model."""
        return bool(
            self.class_of_learner() is not None
            or self._torch_lr_scheduler_classes
            or self._torch_grad_scaler_class
            or is_torch_module(self.rl_module_spec)
        )

    def learners(self, **options: object) -> Self:
        """Set what learns.

        Parameters
        ----------
        **options
            ``num_learners`` (0: the algorithm's own process) and ``num_gpus_per_learner``.
            ``learner_class``, ``learner_connector`` and ``learner_config_dict``: see `training`.
        """
        return self._set("learners", options)

    def resources(self, **options: object) -> Self:
        """Set what Tune asks for.

        Parameters
        ----------
        **options
            ``num_cpus_for_main_process`` (float, default 1; networks of PyTorch learn in so many
            threads), and
            ``custom_resources_for_main_process`` (dict of float).
        """
        return self._set("resources", options)

    def framework(self, framework: str | None = None, **options: object) -> Self:
        """Set what algorithms learn in, which is TensorFlow.

        Parameters
        ----------
        framework : str, optional
            "tf2"; "tf" and "tfe" are its old names. "torch" gives a warning.
        **options
            They have no effect.
        """
        if framework is not None:
            options["framework_str"] = framework
        return self._set("framework", options)

    def multi_agent(self, **options: object) -> Self:
        """Set which policies there are, and which agents act by them.

        Parameters
        ----------
        **options
            ``policies`` (list or set of names, or dict of `PolicySpec` by name): each has a network of
            its own; by default there is ``default_policy``, which all agents share.
            ``policy_mapping_fn`` (function of agent and episode): returns the name of an agent's
            policy; it is called when the agent is first seen in an episode. ``policies_to_train``
            (list, set, or function of a name; default all): the others keep their weights.
            ``observation_fn`` (function of keywords): returns what agents see in place of the
            environment's ``agent_obs``, a dict by agent.
            ``algorithm_config_overrides_per_module`` (dict by policy): options in place of the
            algorithm's.
        """
        return self._set("multi_agent", options)

    def of_policy(self, name: str, spec: PolicySpec) -> tuple[AlgorithmConfig, Rule | None]:
        """Return the options of a policy; and its class and options if it acts by a rule.

        Parameters
        ----------
        name : str
        spec : PolicySpec
        """
        module = self._spec_of_module()
        module = module.of_policy(name) if isinstance(module, MultiRLModuleSpec) else module
        if getattr(module, "learner_only", False):
            raise UnsupportedRayFeatureError(
                f"RLModuleSpec(learner_only=True) of the policy {name!r}",
                "Agents act by the module of a policy",
                "leave learner_only out; a module that no agent acts by is one of a MultiRLModuleSpec "
                "whose name is not that of a policy",
            )
        if is_torch_module(module):
            config = self.copy(copy_frozen=False)
            config.rl_module_spec = module
            return config, None
        if module is not None and module.module_class is not None:
            return self, rule_of(module)
        if is_rule(spec.policy_class):
            return self, Rule(spec.policy_class, spec.config)
        base = self._of_class(spec.policy_class)
        overrides = self.algorithm_config_overrides_per_module.get(name)
        own = [each for each in (spec.config, overrides) if each]
        model = None if module is None else module.model_config
        if not own and not model:
            return base, None
        config = base.copy(copy_frozen=False)
        for each in own:
            options = each if isinstance(each, Mapping) else each.to_dict()
            config.update_from_dict(config._known_of_policy(name, options))
        if model:
            config.training(model=_as_dict(model))
        config.validate()
        return config, None

    def get_config_for_module(self, module_id: str) -> AlgorithmConfig:
        """Return the options of a module: its overrides go before those of the algorithm.

        Parameters
        ----------
        module_id : str
        """
        overrides = self.algorithm_config_overrides_per_module.get(module_id)
        if not overrides:
            return self
        options = overrides if isinstance(overrides, Mapping) else overrides.to_dict()
        return self.copy(copy_frozen=False).update_from_dict(options)

    def _known_of_policy(self, policy: str, options: Mapping[str, object]) -> Mapping[str, Any]:
        """Return the options of a policy; Ray 0 and 1 left those out that are unknown."""
        if not era.is_within("1.13"):
            return options
        renamed = with_new_names(options, self.ROWS)
        unknown = [each for each in renamed if each not in self.names()]
        if unknown:
            logger.warning("The policy %r has options without effect: %s.", policy, unknown)
        return {each: value for each, value in renamed.items() if each not in unknown}

    def _of_class(self, policy_class: object) -> AlgorithmConfig:
        """Return the config of the algorithm that a policy's class names; this one for its own."""
        name = getattr(policy_class, "algorithm", "")
        if not name:
            return self
        from raycompat.rllib.algorithms.registry import get_algorithm_class

        named = get_algorithm_class(name)
        if self.algo_class is not None and issubclass(self.algo_class, named):
            return self
        config: AlgorithmConfig = named.get_default_config()
        config.observation_filter = self.observation_filter
        return config

    def offline_data(self, **options: object) -> Self:
        """Set the recorded steps from which BC, CQL and MARWIL learn, or where others record theirs.

        Parameters
        ----------
        **options
            ``input_`` (str, list of str, or function): the path or pattern of Parquet files with one
            row a step, or of files with one JSON object a line; or a function of an `IOContext` that
            returns an input reader. Columns are ``obs``, ``actions``, ``rewards``, ``terminateds``, and
            where they are known ``truncateds``, ``new_obs`` and ``eps_id``. Compressed columns are
            unpickled: files must come from a trusted source. ``input_config`` (dict): for readers.
            ``actions_in_input_normalized`` (bool, default True): whether numbers of bounded boxes were
            recorded as -1 to 1. ``prelearner_class`` (subclass of `OfflinePreLearner`): its method
            ``_map_to_episodes`` makes episodes of columns in another form. ``offline_data_class``
            (subclass of `OfflineData`): opens data that is in another form than files of steps.
            ``dataset_num_iters_per_learner`` (int): minibatches of an iteration;
            by default as many as have all steps. ``output`` (str): the folder into which runners write
            the episodes that end, in training and in evaluation, one row a step. An environment of
            several agents has no such rows.
        """
        return self._set("offline_data", options)

    def checkpointing(self, **options: object) -> Self:
        """Take options of checkpoints, which have no effect: they have the weights and all else.

        Parameters
        ----------
        **options
            As in Ray.
        """
        return self._set("checkpointing", options)

    def experimental(self, **options: object) -> Self:
        """Set what changes learning in PyTorch; other switches of Ray's implementation have no effect.

        Parameters
        ----------
        **options
            ``_torch_lr_scheduler_classes`` (list of classes of ``torch.optim.lr_scheduler``, or
            functions of an optimizer that make one): change the learning rate after each iteration.
            ``_torch_grad_scaler_class`` (class with the methods of ``torch.amp.GradScaler``): scales
            the loss of a module, and its gradients back; ``grad_clip`` sees them scaled. PPO and BC
            learn with a network of PyTorch then.
        """
        return self._set("experimental", options)

    def python_environment(self, **options: object) -> Self:
        """Refuse environment variables: they belong to ``init(runtime_env=...)``.

        Parameters
        ----------
        **options
            Only those that ask for nothing are taken.
        """
        return self._set("python_environment", options)

    def _set(self, group: str, options: dict[str, object]) -> Self:
        options = {name: each for name, each in options.items() if each is not NotProvided}
        groups = (group, *ALSO.get(group, ()))
        known = [name for each in groups for name in GROUPS[each]]
        known += self.TRAINING if group == "training" else ()
        known += IN_TWO_METHODS.get(group, ())
        renamed = with_new_names(options, self.ROWS)
        self._refuse_unknown(group, renamed, known)
        for name, value in renamed.items():
            self._set_one(name, value)
        return self

    def _set_one(self, name: str, value: Any) -> None:
        if name == "framework_str" and not (value == "torch" and _is_of_program(type(self))):
            value = learns_in(value)
        is_choice = isinstance(value, Mapping) and "grid_search" in value
        if name in ("model", "replay_buffer_config") and not is_choice:
            known = getattr(self, name)
            translate = options_of_model if name == "model" else options_of_buffer
            given = translate(value)
            self._refuse_unknown(name, given, known)
            value = {**known, **given}
        setattr(self, name, value)

    @staticmethod
    def _refuse_unknown(where: str, options: Mapping[str, Any], known: Any) -> None:
        unknown = [name for name in options if name not in known]
        if unknown:
            names = set(known)  # the options of an algorithm repeat some of the group
            candidates = sorted(names | set(RENAMED))
            near = {name: difflib.get_close_matches(name, candidates, 3) for name in unknown}
            hints = ", ".join(f"{k!r} (closest: {v})" if v else repr(k) for k, v in near.items())
            raise ValueError(
                f"{where}: unknown options {hints}. The options are {', '.join(sorted(names))}."
            )

    # As a dict.

    def update_from_dict(self, config: Mapping[str, Any]) -> Self:
        """Set options by name, whatever their groups; old names are translated.

        Raises
        ------
        ValueError
            When a name is unknown; the message has the closest names.
        """
        renamed = with_new_names(config, self.ROWS)
        hooks = {name: renamed.pop(name) for name in list(renamed) if name == "callbacks"}
        self._refuse_unknown("config", renamed, self.names())
        for name, value in renamed.items():
            self._set_one(name, value)
        for value in hooks.values():
            self.callbacks(value)
        return self

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, object]) -> Self:
        """Return a config with these options."""
        return cls().update_from_dict(config_dict)

    @classmethod
    def overrides(cls, **options: object) -> dict[str, Any]:
        """Return options for ``evaluation_config``, by their names of today.

        The name of a method, such as ``exploration``, has no effect, as in Ray.

        Raises
        ------
        ValueError
            When a name is unknown; the message has the closest names.
        """
        renamed = with_new_names(options, cls.ROWS)
        methods = [n for n in renamed if n not in cls.names() and callable(getattr(cls, n, None))]
        for name in methods:
            logger.warning("overrides(%s=%r): a method has no effect.", name, renamed.pop(name))
        cls._refuse_unknown("overrides", renamed, cls.names())
        return renamed

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all options."""
        hooks = [f"callbacks_{name}" for name in HOOKS]
        return [*(n for options in GROUPS.values() for n in options), *cls.TRAINING, *hooks]

    def to_dict(self) -> dict[str, Any]:
        """Return all options by name, for Tune and for results."""
        found = {name: getattr(self, name) for name in self.names() if hasattr(self, name)}
        return {IN_DICTS.get(name, name): copy.copy(value) for name, value in found.items()}

    def copy(self, copy_frozen: bool | None = None) -> Self:
        """Return a copy, which can be changed by itself.

        Parameters
        ----------
        copy_frozen : bool, optional
            Whether the copy is frozen. Default: as this one.
        """
        made = copy.deepcopy(self)
        if copy_frozen is not None:
            made.__dict__["_is_frozen"] = copy_frozen
        return made

    @property
    def is_multi_agent(self) -> bool | Callable[[], bool]:
        """Whether there are other policies than one with the default name.

        For a program of Ray 2.40 or less, it is a method that returns this.
        """
        found = set(specs_of(self.policies)) != {"default_policy"}
        return (lambda: found) if era.is_within("2.40") else found

    def build_learner_connector(
        self, input_observation_space: Space, input_action_space: Space, device: object = None
    ) -> Any:
        """Return the pipeline of a learner, with the connectors of ``learner_connector``.

        Parameters
        ----------
        input_observation_space, input_action_space : gymnasium.Space
        device : optional
            It has no effect.
        """
        from raycompat.rllib.connectors.env_to_module import connectors_of
        from raycompat.rllib.connectors.pipeline import LearnerPipeline

        function = self.learner_connector
        found = function(input_observation_space, input_action_space) if function else None
        return LearnerPipeline(connectors_of(found, "learner_connector"))

    @property
    def model_config(self) -> dict[str, Any]:
        """The options of the network, by their name of today."""
        return self.model

    @property
    def train_batch_size(self) -> int:
        """The same as ``train_batch_size_per_learner``: there is one learner."""
        found: int = self.train_batch_size_per_learner
        return found

    @property
    def total_train_batch_size(self) -> int:
        """The same as ``train_batch_size_per_learner``."""
        return self.train_batch_size

    # Use.

    def validate(self) -> None:
        """Raise for values that no algorithm can use.

        Raises
        ------
        ValueError
            Says what is wrong, and what was expected.
        UnsupportedRayFeatureError
            When a value means something that raycompat does not do.
        """
        for name, (values, reason, alternative) in FIXED.items():
            if getattr(self, name) not in values:
                feature = f"{name}={getattr(self, name)!r}"
                raise UnsupportedRayFeatureError(feature, reason, alternative)
        self._check_numbers()
        self._check_input()
        if self.min_train_timesteps_per_iteration and not self.learns_from_records:
            raise UnsupportedRayFeatureError(
                f"min_train_timesteps_per_iteration={self.min_train_timesteps_per_iteration!r}",
                "An iteration is counted in steps that were played",
                "use min_sample_timesteps_per_iteration",
            )
        if self.logger_config:
            logger.warning("logger_config makes no logger: those of LegacyLoggerCallback read it.")
        self._check_runner_class()
        fragment = self.rollout_fragment_length
        if fragment != "auto" and not is_positive_integer(fragment):
            raise ValueError(
                f"rollout_fragment_length={fragment!r}: expected 'auto' or an integer of 1 or more."
            )
        if not callable(self.observation_filter) and self.observation_filter not in FILTERS:
            raise ValueError(
                f"observation_filter={self.observation_filter!r}: expected one of {sorted(FILTERS)}, "
                "or a function of the observation's shape that returns a filter."
            )
        if self.model["fcnet_activation"] not in ACTIVATIONS:
            raise ValueError(
                f"model: fcnet_activation={self.model['fcnet_activation']!r}: expected one of "
                f"{sorted(ACTIVATIONS)}."
            )
        for name in SIZES_OF_MODEL:
            if not is_positive_integer(self.model[name]):
                raise ValueError(
                    f"model: {name}={self.model[name]!r}: expected an integer of 1 or more."
                )

    def _check_runner_class(self) -> None:
        cls = self.env_runner_cls
        if cls is not None and getattr(cls, "__module__", "") not in MODULES_OF_RUNNERS:
            raise UnsupportedRayFeatureError(
                f"env_runner_cls={cls!r}",
                "Algorithms play by their own env runners",
                "leave it out, or let a callback of on_episode_step do the work",
            )

    def _check_input(self) -> None:
        if not isinstance(self.output, str | None) or self.output in ("logdir", "dataset"):
            raise UnsupportedRayFeatureError(
                f"output={self.output!r}",
                "Steps are written into files of one folder",
                "give the path of a folder",
            )
        plays = self.input_ in (None, "sampler")
        if self.learns_from_records and plays:
            paths = self.input_config.get("paths") or self.input_config.get("path")
            hint = (
                f", or input_='dataset' for the paths of input_config, {paths!r}" if paths else ""
            )
            raise ValueError(
                f"{type(self).__name__}: there are no recorded steps to learn from. Expected "
                f".offline_data(input_=...), the path of Parquet or JSON files{hint}."
            )
        if not (self.learns_from_records or plays):
            raise UnsupportedRayFeatureError(
                f"input_={self.input_!r} of {type(self).__name__}",
                "The algorithm learns from the environment that it plays in, not from recorded steps",
                "use BC, CQL or MARWIL",
            )

    def _check_numbers(self) -> None:
        for name in SCHEDULES:
            value = vars(self).get(name)
            if value is not None or self.TRAINING.get(name, value) is not None:
                check_schedule(name, value)
        for names, is_valid, expected in CHECKS:
            for name in names:
                value = getattr(self, name, None)
                if value is not None and not is_valid(value):
                    raise ValueError(f"{name}={value!r}: expected {expected}.")

    def hooks(self) -> list[RLlibCallback]:
        """Return the callbacks, one object for each class, and one for the functions."""
        given = self.callbacks_class
        if isinstance(given, Mapping):
            return [RLlibCallback(legacy_callbacks_dict=given)]
        classes = given if isinstance(given, list | tuple) else [given] if given else []
        functions = {name: getattr(self, f"callbacks_{name}", None) or [] for name in HOOKS}
        functions = {n: f if isinstance(f, list) else [f] for n, f in functions.items()}
        return [*(cls() for cls in classes), RLlibCallback.of_functions(functions)]

    def get_multi_agent_setup(
        self,
        *,
        policies: Mapping[str, PolicySpec] | None = None,
        env: Env | None = None,
        spaces: Mapping[str, tuple[Space, Space]] | None = None,
        default_policy_class: type | None = None,
    ) -> tuple[dict[str, PolicySpec], Callable[..., bool] | None]:
        """Return the policies with their spaces, and a function that says which of them learn.

        Spaces are looked for in the policy's spec, in `spaces`, in the agents of `env` or in `env`, in
        ``spaces["__env__"]``, and in the config, in this order.

        Parameters
        ----------
        policies : dict of PolicySpec, optional
            Default: those of `multi_agent`.
        env : gymnasium.Env, gymnasium.vector.VectorEnv or MultiAgentEnv, optional
        spaces : dict of tuples, optional
            Observation space and action space by policy.
        default_policy_class : type, optional
            Of the policies that name no class.

        Returns
        -------
        policies : dict of PolicySpec
            Their `config` is an `AlgorithmConfig`.
        is_policy_to_train : callable or None
            Takes the name of a policy, and optionally a batch. It is ``policies_to_train`` where that
            is a function; None where all policies learn.

        Raises
        ------
        ValueError
            When a policy has no spaces, or its agents have different ones.
        """
        known = KnownSpaces(spaces or {}, env, self)
        found = {}
        for name, spec in specs_of(policies or self.policies).items():
            made = found[name] = known.completed(name, spec)
            made.policy_class = made.policy_class or default_policy_class
            if not isinstance(made.config, AlgorithmConfig):
                made.config = self.copy(copy_frozen=False).update_from_dict(made.config or {})
        if self.policies_to_train is None or callable(self.policies_to_train):
            return found, self.policies_to_train
        trained = set(self.policies_to_train)

        def is_policy_to_train(policy_id: str, batch: object = None) -> bool:
            return policy_id in trained

        return found, is_policy_to_train

    @forms.takes_old_options("ray.rllib.algorithms.algorithm_config.AlgorithmConfig.build_algo")
    def build_algo(
        self: _OptionsOf[_AlgorithmT_co], env: GivenEnv | None = None, logger_creator: object = None
    ) -> _AlgorithmT_co:
        """Return the algorithm, ready to train.

        Parameters
        ----------
        env : str, class or callable, optional
            In place of the config's.

        Raises
        ------
        ValueError
            When an option is not valid.
        EnvError, UnsupportedSpaceException
            When the environment cannot be used.
        """
        if self.algo_class is None:
            raise ValueError("AlgorithmConfig is of no algorithm: use PPOConfig(), for example.")
        make: Any = self.algo_class
        made: _AlgorithmT_co = make(self.copy(), env)
        return made

    #: The name until 2024.
    build = build_algo


def _is_of_program(defined: object) -> bool:
    """Return whether a class or a method is a program's; those of Ray's examples are, too."""
    module = defined.__module__
    return not module.startswith("raycompat.rllib.") or module.startswith(
        "raycompat.rllib.examples."
    )


def _as_dict(given: object) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    return {name: value for name, value in vars(given).items() if value is not None}


__getattr__ = names_of(__name__)
