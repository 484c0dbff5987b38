"""`ModelCatalog`: networks of users, by name."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Never

from raycompat._surface.modules import names_of
from raycompat._upper import upper
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Env, Space
from raycompat.rllib.policy_spec import PolicySpec

_models: dict[str, Callable[..., object]] = {}
_action_dists: dict[str, Callable[..., object]] = {}
#: What was registered for an option of networks.
_REGISTERED = {"custom_model": _models, "custom_action_dist": _action_dists}


class ModelCatalog:
    """Registers networks for the option ``model={"custom_model": name}``.

    Notes
    -----
    Ray source: ``ray.rllib.models.ModelCatalog``, 2.60.0. Differs from Ray: a model may be a function
    that returns a Keras model. Preprocessors are environments' wrappers: gymnasium.ObservationWrapper.
    """

    @staticmethod
    def register_custom_model(model_name: str, model_class: Callable[..., object]) -> None:
        """Give a network a name.

        Parameters
        ----------
        model_name : str
        model_class : callable
            Takes the shape of an observation (tuple of int) and the option ``custom_model_config``
            (dict). Returns a Keras model from observations, float32 with one row each, to
            features of shape (rows, features). The algorithm puts its heads on top. Or a subclass of
            ``TFModelV2`` or ``TorchModelV2``, which has all layers.

        Raises
        ------
        TypeError
            When it cannot be called.

        Examples
        --------
        >>> import raycompat.rllib.models as models
        >>> def wide(shape, options):
        ...     import keras
        ...
        ...     layers = [
        ...         keras.Input(shape),
        ...         keras.layers.Dense(options["width"], "relu"),
        ...     ]
        ...     return keras.Sequential(layers)
        >>> models.ModelCatalog.register_custom_model("wide", wide)
        >>> options = {"custom_model": "wide", "custom_model_config": {"width": 512}}
        """
        if not callable(model_class):
            raise TypeError(
                f"model_class={model_class!r}: expected a function of shape and options that returns a "
                "Keras model."
            )
        _models[model_name] = model_class

    @staticmethod
    def register_custom_action_dist(action_dist_name: str, action_dist_class: type[Any]) -> None:
        """Give a distribution of actions a name, for ``model={"custom_action_dist": name}``.

        Parameters
        ----------
        action_dist_name : str
        action_dist_class : type
            A subclass of ``ActionDistribution``, ``TFActionDistribution`` or
            ``TorchDistributionWrapper``. It is made with the outputs of the network and the network,
            and has the methods ``sample``, ``deterministic_sample``, ``logp``, ``entropy``, for PPO
            ``kl``, and the static method ``required_model_output_shape``.

        Raises
        ------
        TypeError
            When it is not such a class.

        Notes
        -----
        PG, A2C and PPO learn by it. In TensorFlow, actions are drawn in a ``tf.function`` by the
        generator of TensorFlow, which the option ``seed`` does not set.
        """
        is_class = isinstance(action_dist_class, type)
        base = upper("_old.rllib.action_distributions").ActionDistribution
        if not (is_class and issubclass(action_dist_class, base)):
            raise TypeError(
                f"action_dist_class={action_dist_class!r}: expected a subclass of "
                "TFActionDistribution or TorchDistributionWrapper."
            )
        _action_dists[action_dist_name] = action_dist_class

    @staticmethod
    def register_custom_preprocessor(preprocessor_name: str, preprocessor_class: object) -> Never:
        """Refuse preprocessors: they are environments' wrappers."""
        _refuse(
            f"ModelCatalog.register_custom_preprocessor({preprocessor_name!r})",
            "Observations are prepared around the environment",
            "use a gymnasium.ObservationWrapper, or env_to_module_connector",
        )

    @staticmethod
    def get_model_v2(
        obs_space: Space,
        action_space: Space,
        num_outputs: int | None,
        model_config: Mapping[str, Any],
        framework: str | None = "tf",
        name: str = "default_model",
        model_interface: type[Any] | None = None,
        default_model: type[Any] | None = None,
        **model_kwargs: Any,
    ) -> Any:
        """Return a network as a class makes it, without an algorithm.

        Parameters
        ----------
        obs_space, action_space : gymnasium.Space
        num_outputs : int or None
            How many numbers it returns for each observation; None: as many as there are features.
        model_config : dict
            The option ``model``.
        framework : str, default "tf"
            "tf", "tf2" or "torch".
        name : str, default "default_model"
        model_interface : type, optional
            A class whose methods the network has beside its own.
        default_model : type, optional
            The class of the network where the options do not name a ``custom_model``. Default: dense
            layers, or filters for images.
        **model_kwargs
            For the class.

        Notes
        -----
        Ray source: ``ray.rllib.models.ModelCatalog.get_model_v2``, 2.60.0. Differs from Ray: it makes
        no network with a memory of the options.
        """
        if model_config.get("use_lstm") or model_config.get("use_attention"):
            _refuse(
                "ModelCatalog.get_model_v2 with a memory",
                _OF_ALGORITHMS,
                "derive from RecurrentNetwork",
            )
        named = model_config.get("custom_model")
        base = default_model if named is None else registered_model(named)
        given = {**model_config.get("custom_model_config", {}), **model_kwargs}
        count = None if num_outputs is None else int(num_outputs)
        parts = (obs_space, action_space, count, model_config, name)
        layers = upper("_old.rllib.models.layers")
        return layers.model_of_class(base, model_interface, framework == "torch", parts, given)

    @staticmethod
    def get_action_dist(*args: object, **kwargs: object) -> Never:
        """Refuse distributions without an algorithm."""
        _refuse("ModelCatalog.get_action_dist", _OF_ALGORITHMS, "use Policy.compute_single_action")

    @staticmethod
    def get_preprocessor(
        env: Env, options: object = None, include_multi_binary: bool = False
    ) -> Any:
        """Return what makes vectors of the observations of an environment.

        Parameters
        ----------
        env : gymnasium.Env
        options, include_multi_binary : optional
            They have no effect: bits are numbers in any case.
        """
        return ModelCatalog.get_preprocessor_for_space(env.observation_space, options)

    @staticmethod
    def get_preprocessor_for_space(
        observation_space: Space, options: object = None, include_multi_binary: bool = False
    ) -> Any:
        """Return what makes vectors of observations.

        Parameters
        ----------
        observation_space : gymnasium.Space
        options, include_multi_binary : optional
            They have no effect: bits are numbers in any case.
        """
        return upper("_old.rllib.sample_batch").Preprocessor(observation_space, options)


_OF_ALGORITHMS = "Networks are made by algorithms"


def _refuse(feature: str, reason: str, alternative: str) -> Never:
    raise UnsupportedRayFeatureError(feature, reason, alternative)


class RegisteredModel(str):
    """The name of a network, with the function that makes it.

    Trials run in processes in which the program has not called `register_custom_model`; the name
    brings the function along.

    Parameters
    ----------
    name : str
    make : callable
    """

    make: Callable[..., Any]

    def __new__(cls, name: str, make: Callable[..., object]) -> RegisteredModel:
        """Return the name, with the function."""
        found = super().__new__(cls, name)
        found.make = make
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the function, too."""
        return RegisteredModel, (str(self), self.make)


#: What users' networks and environments are given: raycompat does not look into these.
_VALUES_OF_USERS = ("custom_model_config", "custom_options", "env_config")


def bringing_models(options: Any) -> Any:
    """Return options in which the names of registered networks bring their functions along.

    Parameters
    ----------
    options : object
        The options of a network, an algorithm or policies; other values are returned as they are.
    """
    if isinstance(options, dict):
        found = copy.copy(options)  # of the same class
        for key, value in options.items():
            if key not in _VALUES_OF_USERS:
                names = _REGISTERED.get(key)
                found[key] = bringing_models(value) if names is None else _bringing(value, names)
        return found
    if type(options) in (list, tuple):
        return type(options)(bringing_models(each) for each in options)
    if isinstance(options, PolicySpec):
        return replace(options, config=bringing_models(options.config))
    return options


def _bringing(name: Any, names: Mapping[str, Callable[..., object]]) -> Any:
    if isinstance(name, dict):
        is_grid = [*name] == ["grid_search"] and isinstance(name["grid_search"], list)
        return (
            {"grid_search": [_bringing(each, names) for each in name["grid_search"]]}
            if is_grid
            else name
        )
    make = names.get(name) if isinstance(name, str) else None
    return name if make is None else RegisteredModel(name, make)


def custom_trunk(
    model: str | Callable[..., object], options: Mapping[str, object]
) -> Callable[[tuple[int, ...]], Any]:
    """Return what makes a user's network for the shape of an observation.

    Raises
    ------
    ValueError
        When the name was not registered.
    """
    return partial(_made, registered_model(model), dict(options))


def registered_model(model: str | Callable[..., object]) -> Callable[..., Any]:
    """Return the function or class that was registered under a name.

    Raises
    ------
    ValueError
        When the name was not registered.
    """
    return _registered(model, "custom_model", "function")


def registered_action_dist(distribution: str | type[Any]) -> Any:
    """Return the distribution of actions that was registered under a name.

    Raises
    ------
    ValueError
        When the name was not registered.
    """
    return _registered(distribution, "custom_action_dist", "class")


def _registered(given: Any, option: str, kind: str) -> Callable[..., Any]:
    if isinstance(given, RegisteredModel):
        return given.make
    names = _REGISTERED[option]
    if isinstance(given, str):
        if given not in names:
            near = difflib.get_close_matches(given, names) or sorted(names)
            raise ValueError(
                f"{option}={given!r}: nothing was registered by this name. The names are {near}. "
                f"Register it with ModelCatalog.register_{option}(name, {kind})."
            )
        return names[given]
    return given  # type: ignore[no-any-return]


def _made(model: Callable[..., object], options: dict[str, object], shape: tuple[int, ...]) -> Any:
    return model(shape, options)


#: Names of older Rays.
__getattr__ = names_of(__name__)
