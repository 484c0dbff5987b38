"""`Functions`: those of a program that a policy is made of; `losses` learns by them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from raycompat.exceptions import UnsupportedRayFeatureError

#: Functions of policies that say what happens here in any case.
_WITHOUT_EFFECT = (
    "get_batch_divisibility_req",
    "get_default_config",
    "obs_include_prev_action_reward",
)


@dataclasses.dataclass(frozen=True)
class Functions:
    """The functions of a policy.

    Parameters
    ----------
    framework : str
        "tf" or "torch": in what the loss computes.
    loss_fn : callable, optional
        Of policy, model, class of distributions and batch. Default: the loss of the algorithm.
    postprocess_fn : callable, optional
        Of policy, `SampleBatch`, other agents' batches (none) and episode (None).
    stats_fn, grad_stats_fn : callable, optional
        Of policy and batch, and gradients: return what results have beside the loss.
    compute_gradients_fn : callable, optional
        Of policy, optimizer and loss: returns pairs of gradients and variables.
    before_init, before_loss_init, after_init : callable, optional
        Of policy, observation space, action space and options.
    mixins : tuple of classes
        Of the policy that the functions see.
    """

    framework: str = "tf"
    loss_fn: Callable[..., Any] | None = None
    postprocess_fn: Callable[..., Any] | None = None
    stats_fn: Callable[..., Any] | None = None
    grad_stats_fn: Callable[..., Any] | None = None
    compute_gradients_fn: Callable[..., Any] | None = None
    before_init: Callable[..., Any] | None = None
    before_loss_init: Callable[..., Any] | None = None
    after_init: Callable[..., Any] | None = None
    mixins: tuple[type[Any], ...] = ()


_FIELDS = {field.name for field in dataclasses.fields(Functions)}


def functions_of(base: Functions, name: str, given: Mapping[str, Any]) -> Functions:
    """Return the functions of a policy with others in their place.

    Parameters
    ----------
    base : Functions
    name : str
        What was called, for errors.
    given : mapping
        Functions by the names that they have in Ray.

    Raises
    ------
    UnsupportedRayFeatureError
        When one is not a part of losses.
    """
    changes = {key: value for key, value in given.items() if value is not None}
    if "gradients_fn" in changes:  # the name until 1.2
        changes["compute_gradients_fn"] = changes.pop("gradients_fn")
    changes = {key: value for key, value in changes.items() if key not in _WITHOUT_EFFECT}
    unknown = sorted(set(changes) - _FIELDS)
    if unknown:
        raise UnsupportedRayFeatureError(
            f"{name}({', '.join(f'{each}=...' for each in unknown)})",
            "An algorithm makes the network, acts and applies gradients in its own way",
            f"use {', '.join(sorted(_FIELDS - {'framework'}))}, or the options of its config",
        )
    if "mixins" in changes:
        changes["mixins"] = tuple(changes["mixins"])
    return dataclasses.replace(base, **changes)
