"""The classes of the policies of algorithms, as ``multiagent`` names them: ``(PPOTFPolicy, ...)``.

They say by which algorithm a policy acts. One of another algorithm than the one that trains acts by its
weights, and does not learn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self

from raycompat._old.rllib.action_distributions import torch_distribution_class
from raycompat._old.rllib.policy_functions import Functions, functions_of
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms.option_groups import MODEL
from raycompat.rllib.checkpoint_state import policies_of
from raycompat.rllib.distributions import num_parameters
from raycompat.rllib.spaces import ActionDecoder

#: Methods of a program's subclass, by the functions of policies that they are here.
_METHODS = {
    "loss": "loss_fn",
    "postprocess_trajectory": "postprocess_fn",
    "stats_fn": "stats_fn",
    "extra_grad_info": "stats_fn",
    "grad_stats_fn": "grad_stats_fn",
}

#: Methods that say how a policy acts, and how gradients are applied.
_REFUSED = (
    "action_distribution_fn",
    "action_sampler_fn",
    "apply_gradients",
    "compute_actions",
    "compute_actions_from_input_dict",
    "compute_gradients",
    "compute_gradients_fn",
    "extra_action_out",
    "extra_action_out_fn",
    "extra_compute_action_fetches",
    "extra_compute_action_feed_dict",
    "extra_compute_grad_fetches",
    "extra_grad_process",
    "gradients",
    "learn_on_batch",
    "make_model",
    "make_model_and_action_dist",
    "optimizer",
)


class PolicyClass:
    """The policy of an algorithm; a subclass of a program may have its own loss.

    Its methods see what functions of `build_policy_class` see as ``policy``: no object of the class.
    """

    is_of_algorithm: ClassVar[bool] = True
    #: Those of a program; a class without has none.
    functions: ClassVar[Functions]
    #: The name of the algorithm.
    algorithm: ClassVar[str] = ""
    #: Whether its loss computes in PyTorch.
    is_of_torch: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        refused = [name for name in _REFUSED if name in own]
        if refused and cls.__module__ != __name__:
            raise UnsupportedRayFeatureError(
                f"{cls.__name__}.{refused[0]}",
                "An algorithm makes the network, acts and applies gradients in its own way",
                f"use the methods {', '.join(sorted(_METHODS))}, or the options of its config",
            )
        functions = {_METHODS[name]: own[name] for name in _METHODS if name in own}
        if functions:
            if "postprocess_fn" in functions:
                functions["postprocess_fn"] = _of_its_time(functions["postprocess_fn"])
            base = getattr(cls, "functions", Functions("torch" if cls.is_of_torch else "tf"))
            cls.functions = functions_of(base, cls.__name__, functions)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse: an algorithm makes its policies."""
        raise UnsupportedRayFeatureError(
            f"{cls.__name__}(...)",
            "A policy is made by its algorithm",
            f"use {cls.algorithm}Config().build_algo().get_policy()",
        )

    @classmethod
    def with_updates(cls, name: str | None = None, **overrides: Any) -> type[Any]:
        """Return a class of policies with functions in place of the algorithm's.

        Parameters
        ----------
        name : str, optional
            Of the class.
        **overrides
            ``loss_fn``, ``postprocess_fn`` and others, as of `build_policy_class`.
        """
        own = Functions("torch" if "Torch" in cls.__name__ else "tf")
        base = getattr(cls, "functions", own)
        made = functions_of(base, f"{cls.__name__}.with_updates", overrides)
        return type(name or cls.__name__, (cls,), {"functions": made, "__module__": __name__})


def _of_its_time(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a ``postprocess_trajectory`` that takes an episode, too: until 2018 it took none."""
    count = len(inspect.signature(method).parameters) - 1
    return lambda policy, *given: method(policy, *given[:count])


class TorchPolicyV2(PolicyClass):
    """The network of a policy in PyTorch, without the policy's algorithm.

    Modules of today take it over: see `from_checkpoint`.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space
    config : dict
        Its ``model`` has the options of the network.

    Attributes
    ----------
    model : TorchModelV2
    dist_class : type
        The distribution of actions.

    Notes
    -----
    Ray source: ``ray.rllib.policy.torch_policy_v2.TorchPolicyV2``, 2.60.0. Differs from Ray: it has
    a network, and neither acts nor learns.
    """

    is_of_torch: ClassVar[bool] = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return an object."""
        return object.__new__(cls)

    def __init__(self, observation_space: Any, action_space: Any, config: Any) -> None:
        from raycompat._old.rllib.models.torch_networks import LSTMNetwork
        from raycompat.rllib.models.catalog import ModelCatalog

        self.observation_space, self.action_space = observation_space, action_space
        options = {**MODEL, **config["model"]}
        # ModelCatalog makes no memory of the options.
        default = LSTMNetwork if options["use_lstm"] else None
        layout = ActionDecoder(action_space).layout
        self.model = ModelCatalog.get_model_v2(
            observation_space,
            action_space,
            num_parameters(layout),
            {**options, "use_lstm": False},
            "torch",
            default_model=default,
        )
        self.dist_class = torch_distribution_class(layout)

    @classmethod
    def from_checkpoint(cls, checkpoint: Any, policy_ids: Any = None) -> Any:
        """Return the network of a checkpoint's policy; see `Policy.from_checkpoint`.

        Raises
        ------
        UnsupportedRayFeatureError
            When its network has other layers than dense ones.
        """
        found = policies_of(checkpoint, policy_ids)
        if isinstance(found, dict):
            return {name: cls._of(policy) for name, policy in found.items()}
        return cls._of(found)

    @classmethod
    def _of(cls, policy: Any) -> Self:
        config = policy.config.to_dict()
        made = cls(policy.observation_space, policy.action_space, config)
        if hasattr(policy.model, "state_dict"):
            made.model.load_state_dict(policy.model.state_dict())
        elif hasattr(made.model, "take_keras_weights"):
            made.model.take_keras_weights(policy.get_weights())
        else:
            raise UnsupportedRayFeatureError(
                f"{cls.__name__}.from_checkpoint() of a network with a memory",
                "Weights of Keras go into dense layers of PyTorch",
                "leave use_lstm out, or train with a module in PyTorch",
            )
        return made


_ALGORITHMS = {
    "A3C": "A3C",
    "AsyncPPO": "APPO",
    "VTrace": "IMPALA",
    "DQN": "DQN",
    "PG": "PG",
    "PPO": "PPO",
    "SimpleQ": "SimpleQ",
}
_KINDS = (
    "PolicyGraph",
    "TF1Policy",
    "TF2Policy",
    "TFPolicy",
    "TorchPolicy",
)


def __getattr__(name: str) -> Any:
    for prefix, algorithm in _ALGORITHMS.items():
        if name.startswith(prefix) and name.removeprefix(prefix) in _KINDS:
            body = {"algorithm": algorithm, "__module__": __name__}
            base = TorchPolicyV2 if name.endswith("TorchPolicy") else PolicyClass
            return globals().setdefault(name, type(name, (base,), body))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
