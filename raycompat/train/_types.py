"""Types of the values that programs and their training functions bring."""

from __future__ import annotations

from typing import Any, TypeAlias

#: Metrics of a report by name. It is Any because a program reports values of any types, and computes
#: with those that it finds in the result.
Metrics: TypeAlias = dict[str, Any]

#: What a program passes to its training function by name. It is Any because only that function knows
#: the types.
Config: TypeAlias = dict[str, Any]
