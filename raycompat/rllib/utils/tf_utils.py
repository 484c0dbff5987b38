"""`TensorFlowVariables` where Ray 2.60 has it; see `raycompat.experimental.tf_utils`."""

from raycompat._surface.modules import names_of
from raycompat.experimental.tf_utils import TensorFlowVariables

__all__ = ["TensorFlowVariables"]


__getattr__ = names_of(__name__)
