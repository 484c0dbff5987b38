"""The options `label_selector` and `fallback_strategy`: their syntax, and their rules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from raycompat._protocol.strategy import LabelRule

#: A name or value of a label, 63 characters at most; the syntax of Kubernetes, which Ray uses.
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"

#: What may stand before the name of a label and a slash: a domain, 253 characters at most.
_DOMAIN = re.compile(rf"{_NAME}(?:\.{_NAME})*")
_MAX_DOMAIN = 253

_CONDITION = re.compile(rf"(!?)(?:({_NAME})|in\(({_NAME}(?:, *{_NAME})*)\))")

#: The options that an entry of `fallback_strategy` can have.
_FALLBACK_OPTIONS = ("label_selector",)


def checked(name: str, selector: Mapping[Any, object] | None) -> dict[str, str] | None:
    """Return a label selector, the value of the option `name`.

    Raises
    ------
    TypeError
        When a label or its condition is not a string.
    ValueError
        When one does not have the syntax.
    """
    if selector is None:
        return None
    for key, condition in selector.items():
        if not (isinstance(key, str) and isinstance(condition, str)):
            raise TypeError(
                f"{name}: the label {key!r} has the condition {condition!r}. Expected strings, as in "
                "{'zone': 'in(a, b)'}."
            )
        _check_key(name, key)
        if condition and not _CONDITION.fullmatch(condition):
            raise ValueError(
                f"{name}: Invalid label selector value {condition!r} of the label {key!r}. Expected "
                "one of 'a', '!a', 'in(a, b)' and '!in(a, b)'. Values have at most 63 letters, digits, "
                "'-', '_' and '.', and begin and end with a letter or a digit."
            )
    return dict(selector)


def _check_key(name: str, key: str) -> None:
    domain, slash, label = key.rpartition("/")
    if slash and not (len(domain) <= _MAX_DOMAIN and _DOMAIN.fullmatch(domain)):
        raise ValueError(
            f"{name}: Invalid label key prefix {domain!r} of {key!r}. Expected a domain of at most "
            f"{_MAX_DOMAIN} characters, as in 'example.com/zone'."
        )
    if not re.fullmatch(_NAME, label):
        raise ValueError(
            f"{name}: Invalid label key name {label!r}. Expected at most 63 letters, digits, '-', '_' "
            "and '.', with a letter or a digit at the beginning and the end."
        )


def checked_fallbacks(name: str, fallbacks: Sequence[object] | None) -> list[dict[str, str]]:
    """Return the label selectors of the option `name`, in the order in which they are tried.

    Raises
    ------
    TypeError, ValueError
        When an entry is not valid.
    """
    selectors = []
    for entry in fallbacks or ():
        if not isinstance(entry, dict) or not entry:
            raise ValueError(
                f"{name}: the entry {entry!r} must be a dictionary, and not empty, as in "
                "{'label_selector': {'zone': 'b'}}."
            )
        unknown = [option for option in entry if option not in _FALLBACK_OPTIONS]
        if unknown:
            raise ValueError(
                f"{name}: unknown option {unknown[0]!r} in {entry!r}. Entries have the option "
                "label_selector only."
            )
        selector = entry["label_selector"]
        if not isinstance(selector, dict | None):
            raise ValueError(
                f"{name}: label_selector={selector!r} in {entry!r}; expected a dictionary of labels."
            )
        selectors.append(checked(name, selector) or {})
    return selectors


def rules(selector: Mapping[str, str]) -> tuple[LabelRule, ...]:
    """Return the rules of a checked label selector; a node must obey all of them."""
    return tuple(_rule(key, condition) for key, condition in selector.items())


def _rule(key: str, condition: str) -> LabelRule:
    found = _CONDITION.fullmatch(condition)
    if found is None:  # empty: the label is there, and has no value
        return LabelRule(key, "in", ("",))
    negation, one, several = found.groups()
    values = (one,) if one is not None else tuple(re.split(", *", several))
    return LabelRule(key, "not in" if negation else "in", values)
