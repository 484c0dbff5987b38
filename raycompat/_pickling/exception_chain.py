"""The cause and the context of an exception, which pickling loses."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TypeAlias

#: The most exceptions of a chain that are sent; the others are dropped.
_MOST = 32

#: An exception of a chain: its pickle (None for the first), the positions of its cause and its context
#: in the chain (None if not sent), and whether its context is hidden.
Link: TypeAlias = tuple[bytes | None, int | None, int | None, bool]


def dump_chain(error: BaseException, dumps: Callable[[BaseException], bytes]) -> tuple[Link, ...]:
    """Return the causes and contexts of an exception that can be pickled; empty if there are none."""
    if error.__cause__ is None and error.__context__ is None:
        return ()
    found: list[BaseException] = [error]
    pickles: list[bytes | None] = [None]

    def position(other: BaseException | None) -> int | None:
        if other is None:
            return None
        for index, known in enumerate(found):
            if known is other:
                return index
        if len(found) == _MOST:
            return None
        try:
            pickled = dumps(other)
        except Exception:  # the chain ends here, at the first that cannot be pickled
            return None
        found.append(other)
        pickles.append(pickled)
        return len(found) - 1

    links: list[Link] = []
    for index, each in enumerate(found):  # `position` appends to it
        cause, context = position(each.__cause__), position(each.__context__)
        links.append((pickles[index], cause, context, each.__suppress_context__))
    return tuple(links)


def restore_chain(error: BaseException, links: tuple[Link, ...]) -> None:
    """Restore the causes and contexts from `dump_chain`."""
    chain = [error]
    for pickled, *_ in links[1:]:
        try:
            chain.append(pickle.loads(pickled or b""))
        except Exception:
            return  # this process lacks a class: the error has no chain
    for each, (_, cause, context, hidden) in zip(chain, links, strict=False):
        _put_behind(
            each,
            None if cause is None else chain[cause],
            None if context is None else chain[context],
            hidden=hidden,
        )


def share_chain(error: BaseException, source: BaseException) -> None:
    """Copy the cause and context of one exception to another."""
    if source.__cause__ is not None or source.__context__ is not None:
        hidden = source.__suppress_context__
        _put_behind(error, source.__cause__, source.__context__, hidden=hidden)


def _put_behind(
    error: BaseException,
    cause: BaseException | None,
    context: BaseException | None,
    *,
    hidden: bool,
) -> None:
    # With object's own method, because exception classes may refuse changes.
    object.__setattr__(error, "__cause__", cause)
    object.__setattr__(error, "__context__", context)
    object.__setattr__(error, "__suppress_context__", hidden)
