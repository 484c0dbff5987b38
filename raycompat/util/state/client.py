"""Asking a cluster for its state: one question to the scheduler, which asks callers and nodes."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, cast

from raycompat._caller import current_session
from raycompat._messages.watching import ListRows, Summarize
from raycompat._protocol import shared_secret
from raycompat._protocol.message import Request, ask
from raycompat._protocol.shared_secret import Authority
from raycompat.util.state.common import (
    RAY_MAX_LIMIT_FROM_API_SERVER,
    SCHEMAS,
    Filter,
    GetApiOptions,
    ListApiOptions,
    StateResource,
    SummaryApiOptions,
    SummaryResource,
)
from raycompat.util.state.exception import RayStateApiException, ServerUnavailable

if TYPE_CHECKING:
    from raycompat._connect.addresses import Destination

#: Resources without ids.
_WITHOUT_IDS = (StateResource.RUNTIME_ENVS, StateResource.CLUSTER_EVENTS)


_A = TypeVar("_A")


class StateApiClient:
    """Ask a cluster for its state.

    Parameters
    ----------
    address : str, optional
        Of the cluster: ``auto``, ``HOST:PORT`` or what ``init`` takes. By default the cluster of this
        process's session; if it has none, ``auto``.
    cookies, headers : dict, optional
        They have no effect, because requests do not use HTTP.
    """

    def __init__(
        self,
        address: str | None = None,
        cookies: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        _destination: Destination | None = None,
    ) -> None:
        self._address = address
        self._destination = _destination
        self._connection: Any = None

    def list(
        self,
        resource: StateResource,
        options: ListApiOptions,
        raise_on_missing_output: bool,
        _explain: bool = False,
    ) -> list[Any]:
        """Return what there is of a resource; see `list_tasks`."""
        return [*self._counted(resource, options, raise_on_missing_output, _explain)[0]]

    def _counted(
        self,
        resource: StateResource,
        options: ListApiOptions,
        raise_on_missing_output: bool,
        _explain: bool = False,
    ) -> tuple[Sequence[Any], int]:
        """Return the rows of a resource, and how many match: the limit may leave some out."""
        if _conflicts(options.filters or []):
            return [], 0
        if options.limit > RAY_MAX_LIMIT_FROM_API_SERVER:
            raise RayStateApiException(
                f"The limit is {options.limit}; it may be {RAY_MAX_LIMIT_FROM_API_SERVER} at most. "
                "Use filters to get less."
            )
        answer = self.ask(
            ListRows(
                resource.value,
                list(options.filters or ()),
                options.limit,
                options.detail,
            ),
            options.timeout,
        )
        _complain(resource.value, answer, raise_on_missing_output, explain=_explain)
        schema, _ = SCHEMAS[resource.value]
        return [schema(**row) for row in answer["result"]], answer["num_filtered"]

    def get(
        self,
        resource: StateResource,
        id: str,
        options: GetApiOptions | None,
        _explain: bool = False,
    ) -> Any:
        """Return the one thing of an id with all details; None if there is none.

        Of a task that was tried several times, the list of its attempts; of an object, the list of the
        references to it.
        """
        if resource in _WITHOUT_IDS:
            raise ValueError(f"Can't get {resource.name} by id.")
        schema, key = SCHEMAS[resource.value]
        answer = self.ask(
            ListRows(
                resource.value,
                [(key, "=", id)],
                limit=RAY_MAX_LIMIT_FROM_API_SERVER,
                detail=True,
            ),
            (options or GetApiOptions()).timeout,
        )
        found = [schema(**row) for row in answer["result"]]
        if not found:
            return None
        if resource is StateResource.OBJECTS or len(found) > 1:
            return found
        return found[0]

    def summary(
        self,
        resource: SummaryResource,
        *,
        options: SummaryApiOptions,
        raise_on_missing_output: bool,
        _explain: bool = False,
    ) -> dict[str, Any]:
        """Return sums of a resource; see `summarize_tasks`."""
        answer = self.ask(Summarize(resource.value), options.timeout)
        _complain(resource.value, answer, raise_on_missing_output, explain=_explain)
        return {"cluster": answer["result"]}

    def _client(self) -> AbstractContextManager[Any]:
        if self._connection is not None:
            return nullcontext(self._connection)
        return _client(self._address, self._destination)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Keep one connection for all questions that are asked meanwhile."""
        with _client(self._address, self._destination) as client:
            self._connection = client
            try:
                yield
            finally:
                self._connection = None

    def ask(self, request: Request[_A], timeout_s: float) -> _A:
        """Ask the scheduler something.

        Raises
        ------
        RayStateApiException
            When it does not answer, or answers that something is wrong.
        """
        try:
            with self._client() as client:

                async def ask_in_time() -> Any:
                    async with asyncio.timeout(timeout_s):
                        return await ask(client.scheduler, request)

                answer = client.sync(ask_in_time)
        except TimeoutError as error:
            raise RayStateApiException(
                f"The scheduler has not answered within {timeout_s} s. Give a longer timeout."
            ) from error
        except OSError as error:
            raise ServerUnavailable(
                f"The cluster cannot be asked for its state: {error}"
            ) from error
        if answer is None:
            raise ServerUnavailable(
                "raycompat is not on this Dask cluster, so there is no state to show: no driver has "
                "connected to it, or it was taken off."
            )
        if "error" in answer:
            raise RayStateApiException(answer["error"])
        return cast("_A", answer)


@contextmanager
def _client(address: str | None, destination: Destination | None) -> Iterator[Any]:
    """Yield a Dask client: that of this process's session, or one for this question."""
    session = current_session.get()
    if address is None and destination is None and session is not None:
        session.check_connection()
        client = session.client
        session.sharing.require_sync()
        session.sharing.wait_until_synced()  # the answer contains what this process did before
        yield client
        return
    from raycompat._connect import addresses, connect

    if destination is None:
        destination = addresses.require(address or "auto", _authority())
    with connect.connect(destination) as client:
        yield client


def _authority() -> Authority | None:
    secret = shared_secret.find(None)
    return Authority(secret) if secret is not None else None


def _conflicts(filters: list[Filter]) -> bool:
    """Whether two filters want one field to have two values: then nothing can match."""
    wanted: dict[str, Any] = {}
    for field, predicate, value in filters:
        if predicate == "=" and wanted.setdefault(field, value) != value:
            warnings.warn(
                f"Two '=' filters want {field!r} to be {wanted[field]!r} and {value!r}: nothing "
                "matches both.",
                UserWarning,
                stacklevel=4,
            )
            return True
    return False


def _complain(
    resource: str, answer: dict[str, Any], raise_on_missing_output: bool, *, explain: bool
) -> None:
    """Raise, or warn, when something is missing."""
    missing = [
        *answer["warnings"],
        *_truncation(resource, answer["total"], answer["num_after_truncation"]),
    ]
    if missing and raise_on_missing_output:
        raise RayStateApiException(
            f"Not all {resource} are known. {' '.join(missing)} Give raise_on_missing_output=False to "
            "get the others."
        )
    if explain:
        found = answer["result"]
        if not isinstance(found, dict) and answer["num_filtered"] > len(found):
            missing.append(
                f"{answer['num_filtered']} {resource} match, of which {len(found)} are returned: give "
                "a larger limit, or more filters."
            )
        for each in missing:
            warnings.warn(each, UserWarning, stacklevel=4)


def _truncation(resource: str, total: int, num_known: int) -> list[str]:
    if total == num_known:
        return []
    text = (
        f"Of {total} {resource} the cluster lists {num_known}: it keeps the last that have ended, and "
        "a process lists at most 10,000 calls and its 10,000 largest objects."
    )
    return [text]
