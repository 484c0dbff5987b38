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
    conv_activation : str, default "relu"
        Activation of the convolutions; only "relu".
    free_log_std : bool, default False
        Whether deviations of actions do not depend on observations.
    head_fcnet_hiddens : list of int
        Sizes of further dense layers of the policy and of the value function.
    vf_share_layers : bool, default True
        Whether the value function has the layers of the policy, except its last one.
    use_lstm : bool, default False
        Whether there is a long short-term memory above the dense layers.
    max_seq_len : int, default 20
        The most steps of a sequence that a network with a memory learns from.
    lstm_cell_size : int, default 256
        The number of cells of the memory.
    lstm_use_prev_action, lstm_use_prev_reward : bool, default False
        Whether the memory sees the last action and reward.
    head_fcnet_activation, log_std_clip_param, fcnet_use_layernorm, head_fcnet_use_layernorm : optional
        Only the values that ask for nothing are taken.
    fcnet_kernel_initializer, fcnet_bias_initializer : callable or str, optional
        First kernels and biases of the dense layers: a function of ``torch.nn.init``, or its name.
        Default: orthogonal matrices, and 0.
    fcnet_kernel_initializer_kwargs, fcnet_bias_initializer_kwargs : dict, optional
        Arguments of them.
    conv_kernel_initializer, head_fcnet_kernel_initializer, lstm_kernel_initializer : optional
        Only None: kernels of convolutions begin as He's normal numbers.
    conv_bias_initializer, head_fcnet_bias_initializer, lstm_bias_initializer : optional
        Only None, and for convolutions ``"zeros_"``: biases begin as 0.
    conv_kernel_initializer_kwargs, conv_bias_initializer_kwargs : dict, optional
        Not supported, as all others that follow.
    head_fcnet_kernel_initializer_kwargs, head_fcnet_bias_initializer_kwargs : dict, optional
    lstm_kernel_initializer_kwargs, lstm_bias_initializer_kwargs : dict, optional

    Notes
    -----
    Ray source: ``ray.rllib.core.rl_module.default_model_config.DefaultModelConfig``, 2.60.0. Differs
    from Ray: it has the options that have an effect here.
    """

    fcnet_hiddens: Sequence[int] = field(default_factory=lambda: [256, 256])
    fcnet_activation: str = "tanh"
    conv_filters: Sequence[object] | None = None
    conv_activation: str = "relu"
    free_log_std: bool = False
    head_fcnet_hiddens: Sequence[int] = field(default_factory=list)
    vf_share_layers: bool = True
    head_fcnet_activation: str | None = None
    use_lstm: bool = False
    max_seq_len: int = 20
    lstm_cell_size: int = 256
    log_std_clip_param: float | None = None
    lstm_use_prev_action: bool = False
    lstm_use_prev_reward: bool = False
    fcnet_use_layernorm: bool = False
    head_fcnet_use_layernorm: bool = False
    fcnet_kernel_initializer: object = None
    fcnet_kernel_initializer_kwargs: object = None
    fcnet_bias_initializer: object = None
    fcnet_bias_initializer_kwargs: object = None
    conv_kernel_initializer: object = None
    conv_kernel_initializer_kwargs: object = None
    conv_bias_initializer: object = None
    conv_bias_initializer_kwargs: object = None
    head_fcnet_kernel_initializer: object = None
    head_fcnet_kernel_initializer_kwargs: object = None
    head_fcnet_bias_initializer: object = None
    head_fcnet_bias_initializer_kwargs: object = None
    lstm_kernel_initializer: object = None
    lstm_kernel_initializer_kwargs: object = None
    lstm_bias_initializer: object = None
    lstm_bias_initializer_kwargs: object = None
