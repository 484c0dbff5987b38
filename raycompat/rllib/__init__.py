"""Where Ray keeps ``rllib``: of it there is `TensorFlowVariables`, in `utils.tf_utils`, and no more."""

from raycompat.rllib import utils

__all__ = ["utils"]
