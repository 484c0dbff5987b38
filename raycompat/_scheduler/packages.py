"""Packages of runtime environments: drivers upload them, nodes fetch them, jobs keep them here."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import dask

#: Bytes of one read.
PIECE_BYTES = 4 << 20


class Packages:
    """The packages on disk, and the clients that need them."""

    def __init__(self) -> None:
        self._directory: Path | None = None
        #: The clients whose jobs need a package, by its URI.
        self._needed_by: dict[str, set[str]] = {}

    def _path(self, uri: str, client: str = "") -> Path:
        if self._directory is None:
            parent = dask.config.get("temporary-directory", None)
            self._directory = Path(tempfile.mkdtemp(prefix="raycompat-packages-", dir=parent))
        name = uri.partition("://")[2].replace("/", "_")
        return self._directory / (f"{name}.{client}" if client else name)

    async def begin(self, client: str, uri: str) -> bool:
        """Keep a package for a client; return whether it was uploaded already."""
        self._needed_by.setdefault(uri, set()).add(client)
        if self._path(uri).exists():
            return True
        self._path(uri, client).write_bytes(b"")
        return False

    def hold(self, client: str, uri: str) -> bool:
        """Keep a package that was uploaded for one more client; return whether it is there."""
        if not self.has(uri):
            return False
        self._needed_by[uri].add(client)
        return True

    def is_begun(self, client: str, uri: str) -> bool:
        """Return whether a client has sent a part of a package."""
        return self._path(uri, client).exists()

    async def write(self, client: str, uri: str, data: bytes) -> None:
        """Append the next piece to a package."""
        path = self._path(uri, client)

        def append() -> None:
            with path.open("ab") as file:
                file.write(data)

        await asyncio.to_thread(append)

    async def end(self, client: str, uri: str) -> None:
        """Complete a package."""
        self._path(uri, client).replace(self._path(uri))

    async def read(self, uri: str, offset: int) -> bytes | None:
        """Return a piece of a package, empty at its end; None for an unknown package."""
        path = self._path(uri)

        def piece() -> bytes | None:
            try:
                with path.open("rb") as file:
                    file.seek(offset)
                    return file.read(PIECE_BYTES)
            except FileNotFoundError:
                return None

        return await asyncio.to_thread(piece)

    def release(self, client: str) -> None:
        """Remove the packages that only this client's job needed."""
        for uri in [uri for uri, clients in self._needed_by.items() if client in clients]:
            clients = self._needed_by[uri]
            clients.discard(client)
            self._path(uri, client).unlink(missing_ok=True)
            if not clients:
                del self._needed_by[uri]
                self._path(uri).unlink(missing_ok=True)

    def has(self, uri: str) -> bool:
        """Return whether a package was uploaded to its end."""
        return uri in self._needed_by and self._path(uri).exists()

    def names(self) -> list[str]:
        """Return the URIs of all packages."""
        return list(self._needed_by)

    def close(self) -> None:
        """Remove all packages."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
