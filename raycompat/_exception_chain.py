"""What an exception was raised from: its cause and context, which pickling leaves behind."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TypeAlias

#: Exceptions of a chain that travel at most; what is behind them stays where it was raised.
_MOST = 32

#: An exception behind another: its pickle (None for the first), and the positions of its cause and of
#: its context in the chain, if they have travelled, and whether its context is hidden.
Link: TypeAlias = tuple[bytes | None, int | None, int | None, bool]


def dump_chain(error: BaseException, dumps: Callable[[BaseException], bytes]) -> tuple[Link, ...]:
    """Return what stands behind an exception, as far as it can be pickled; empty if nothing does."""
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
        except Exception:  # the chain ends there: what can travel does
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
    """Put behind an exception what `dump_chain` has found."""
    chain = [error]
    for pickled, *_ in links[1:]:
        try:
            chain.append(pickle.loads(pickled or b""))
        except Exception:
            return  # a class that this process does not have: the error stands alone
    for each, (_, cause, context, hidden) in zip(chain, links, strict=False):
        _put_behind(
            each,
            None if cause is None else chain[cause],
            None if context is None else chain[context],
            hidden=hidden,
        )


def share_chain(error: BaseException, source: BaseException) -> None:
    """Put behind an exception what stands behind another."""
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
    # By object's own method: classes of exceptions may refuse to be changed.
    object.__setattr__(error, "__cause__", cause)
    object.__setattr__(error, "__context__", context)
    object.__setattr__(error, "__suppress_context__", hidden)
