"""The classes of the policies of algorithms, as ``multiagent`` names them: ``(PPOTFPolicy, ...)``.

They say by which algorithm a policy acts. One of another algorithm than the one that trains acts by its
weights, and does not learn.
"""

from __future__ import annotations

from typing import Any, ClassVar, Never

from raycompat._old.rllib.policy_functions import Functions, functions_of
from raycompat.exceptions import UnsupportedRayFeatureError


class PolicyClass:
    """The policy of an algorithm."""

    is_of_algorithm: ClassVar[bool] = True
    #: The name of the algorithm.
    algorithm: ClassVar[str] = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> Never:
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
            return globals().setdefault(name, type(name, (PolicyClass,), body))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
