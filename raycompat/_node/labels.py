"""The labels of a node, by which `NodeLabelSchedulingStrategy` chooses."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from raycompat._protocol.strategy import NODE_ID_LABEL

#: The variable with the labels of the node, as JSON: {"zone": "a"}.
VARIABLE = "RAYCOMPAT_NODE_LABELS"

#: The variable with the name of the node.
NAME_VARIABLE = "RAYCOMPAT_NODE_NAME"


def read() -> dict[str, str]:
    """Return the labels with which this node was started.

    Raises
    ------
    ValueError
        When the labels are not valid.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{VARIABLE}={text!r} is not JSON: {error}.") from error
    return checked(VARIABLE, found)


def checked(source: str, labels: object) -> dict[str, str]:
    """Return the labels that were given by `source`.

    Raises
    ------
    ValueError
        When they are not a mapping of strings, or contain the label that every node has.
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
            f"{source}={labels!r}: {NODE_ID_LABEL} is a label that every node already has. Leave "
            "it out."
        )
    return dict(labels)
