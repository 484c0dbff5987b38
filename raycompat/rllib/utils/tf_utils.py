"""`TensorFlowVariables` where Ray 2.60 has it; see `raycompat.experimental.tf_utils`."""

from raycompat.experimental.tf_utils import TensorFlowVariables

__all__ = ["TensorFlowVariables"]
