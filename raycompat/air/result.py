"""The module in which Ray has the `Result` of a trial."""

from raycompat.train._result import TrialResult as Result

__all__ = ["Result"]
