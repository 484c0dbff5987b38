"""The labels of a node: what `NodeLabelSchedulingStrategy` chooses by."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from raycompat._protocol.strategy import NODE_ID_LABEL

#: Labels of the node that is started with it, as JSON: {"zone": "a"}.
VARIABLE = "RAYCOMPAT_NODE_LABELS"


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
        raise ValueError(f"{VARIABLE}={text!r} is not JSON: {error}.") from error
    return checked(VARIABLE, found)


def checked(source: str, labels: Any) -> dict[str, str]:
    """Return labels that somebody has given by `source`.

    Raises
    ------
    ValueError
        When they are no mapping of strings, or name the label that every node has by itself.
    """
    if not isinstance(labels, Mapping) or not all(
        isinstance(part, str) for item in labels.items() for part in item
    ):
        raise ValueError(
            f"{source}={labels!r}: expected labels and their values, all strings, as in "
            "{'zone': 'a'}."
        )
    if NODE_ID_LABEL in labels:
        raise ValueError(
            f"{source}={labels!r}: {NODE_ID_LABEL} is the label that every node has by itself. Leave "
            "it out."
        )
    return dict(labels)
