"""`LoggingConfig`: how the driver, the tasks and the actors of a job log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from raycompat._protocol.log_formats import STANDARD_ATTRIBUTES, JSONFormatter, TextFormatter

_FORMATTERS = {"TEXT": TextFormatter, "JSON": JSONFormatter}

#: The handler of this process that the last `LoggingConfig` has added.
_handler: logging.Handler | None = None


@dataclass
class LoggingConfig:
    """How a job logs: in its driver, its tasks and its actors.

    ``init(logging_config=...)`` adds a handler to the root logger of each of these processes. It writes
    to standard error, which the driver shows without the prefixes ``(name pid=...)``.

    Parameters
    ----------
    encoding : {"TEXT", "JSON"}, default "TEXT"
        One line of text for each record, or one JSON object.
    log_level : str or int, default "INFO"
        The level of the root logger and of its handler, as in `logging.Logger.setLevel`.
    additional_log_standard_attrs : list of str, optional
        Standard attributes of `logging.LogRecord` to show, besides the time, level, message, file and
        line; for example ``["name", "funcName"]``.

    Raises
    ------
    ValueError
        When the encoding or an attribute is unknown.

    Notes
    -----
    Ray source: ``ray.LoggingConfig``, 2.60.0. Each record shows the ids of its job, process and node,
    and in tasks and actors the ids and names of those; see ``ray._common.filters.CoreContextFilter``.
    Differs from Ray: a second `init` in the same process replaces the handler of the first, where Ray
    shows each record twice; an unknown level is an error of `init`, before anything is started.

    Examples
    --------
    Pass it to `init`, as ``ray.init(logging_config=config)``:

    >>> import raycompat as ray
    >>> config = ray.LoggingConfig(
    ...     encoding="JSON", additional_log_standard_attrs=["name"]
    ... )
    >>> config.encoding, config.log_level
    ('JSON', 'INFO')
    """

    encoding: str = "TEXT"
    log_level: str = "INFO"
    additional_log_standard_attrs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.encoding not in _FORMATTERS:
            raise ValueError(
                f"Invalid encoding type: {self.encoding!r}. Expected one of {list(_FORMATTERS)}."
            )
        unknown = [
            name for name in self.additional_log_standard_attrs if name not in STANDARD_ATTRIBUTES
        ]
        if unknown:
            raise ValueError(
                f"additional_log_standard_attrs: {', '.join(map(repr, unknown))}: no standard "
                f"attribute of log records has this name. Choose from {sorted(STANDARD_ATTRIBUTES)}."
            )

    def to_dict(self) -> dict[str, object]:
        """Return the fields by name, for `from_dict`.

        Examples
        --------
        >>> ray.LoggingConfig(log_level="DEBUG").to_dict()["log_level"]
        'DEBUG'
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> LoggingConfig:
        """Return the configuration with these fields; other keys have no effect.

        Examples
        --------
        >>> config = ray.LoggingConfig(log_level="DEBUG")
        >>> ray.LoggingConfig.from_dict(config.to_dict()).log_level
        'DEBUG'
        """
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in d.items() if name in known})

    def _check_level(self) -> None:
        """Raise when Python's `logging` does not know the level."""
        logging.Handler().setLevel(self.log_level)

    def _apply(self, context: logging.Filter) -> None:
        """Configure the root logger and raycompat's logger; `context` adds the ids of what runs."""
        global _handler
        formatter = _FORMATTERS[self.encoding]()
        formatter.set_additional_log_standard_attrs(self.additional_log_standard_attrs)
        handler = logging.StreamHandler()
        handler.setLevel(self.log_level)
        handler.setFormatter(formatter)
        handler.addFilter(context)
        root, package = logging.getLogger(), logging.getLogger("raycompat")
        if _handler is not None:
            root.removeHandler(_handler)
        package.handlers.clear()
        for logger in (root, package):
            logger.setLevel(self.log_level)
        root.addHandler(handler)
        _handler = handler
