"""Loggers, which write results into the folders of trials."""

from raycompat._surface.modules import names_of
from raycompat.tune.logger.files import CSVLoggerCallback, JsonLoggerCallback
from raycompat.tune.logger.logger import LoggerCallback
from raycompat.tune.logger.tensorboardx import TBXLoggerCallback

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = ["CSVLoggerCallback", "JsonLoggerCallback", "LoggerCallback", "TBXLoggerCallback"]
