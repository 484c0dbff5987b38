"""The labels of a node: what `NodeLabelSchedulingStrategy` chooses by."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

#: Labels of the node that is started with it, as JSON: {"zone": "a"}.
VARIABLE = "RAYCOMPAT_NODE_LABELS"

#: What labels of ours begin with, and nobody else's.
_RESERVED = "ray.io/"


def read() -> dict[str, str]:
    """Return the labels that this node was started with.

    Raises
    ------
    ValueError
        When they are no labels.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{VARIABLE}={text!r} is no JSON: {error}.") from error
    return checked(VARIABLE, found)


def checked(source: str, labels: Any) -> dict[str, str]:
    """Return labels that somebody has given by `source`.

    Raises
    ------
    ValueError
        When they are no mapping of strings, or have a name that is not theirs.
    """
    if not isinstance(labels, Mapping) or not all(
        isinstance(part, str) for item in labels.items() for part in item
    ):
        raise ValueError(
            f"{source}={labels!r}: expected labels and their values, all strings, as in "
            "{'zone': 'a'}."
        )
    for name in labels:
        if name.startswith(_RESERVED):
            raise ValueError(
                f"Custom label keys `{name}` cannot start with the prefix `{_RESERVED}`: {source} may "
                "not give these, which every node has by itself."
            )
    return dict(labels)
