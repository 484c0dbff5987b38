"""`DefaultModelConfig`: the options of a network as an object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class DefaultModelConfig:
    """The options of a network, for ``config.rl_module(model_config=...)``.

    Parameters
    ----------
    fcnet_hiddens : list of int
        Sizes of the dense layers, from the first. Default: two of 256.
    fcnet_activation : str, default "tanh"
        Activation of the dense layers.
    conv_filters : list, optional
        The convolutions before them, each ``(filters, side, stride)``.
    vf_share_layers : bool, default True
        Whether the value function has the layers of the policy, except its last one.

    Notes
    -----
    Ray source: ``ray.rllib.core.rl_module.default_model_config.DefaultModelConfig``, 2.60.0. Differs
    from Ray: it has the options that have an effect here.
    """

    fcnet_hiddens: Sequence[int] = field(default_factory=lambda: [256, 256])
    fcnet_activation: str = "tanh"
    conv_filters: Sequence[object] | None = None
    vf_share_layers: bool = True
