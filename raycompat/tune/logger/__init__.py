"""Loggers, which write results into the folders of trials."""

from raycompat.tune.logger.files import CSVLoggerCallback, JsonLoggerCallback
from raycompat.tune.logger.logger import LoggerCallback
from raycompat.tune.logger.tensorboardx import TBXLoggerCallback

__all__ = ["CSVLoggerCallback", "JsonLoggerCallback", "LoggerCallback", "TBXLoggerCallback"]
