"""The module of Ray from which programs import the formatters of `LoggingConfig`."""

from raycompat._protocol.log_formats import JSONFormatter, TextFormatter

__all__ = ["JSONFormatter", "TextFormatter"]
