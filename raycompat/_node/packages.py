"""Packages of runtime environments on a node: fetched and unpacked once for all their users."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import stat
import tarfile
import uuid
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from raycompat._node import shared_tasks

#: Bytes that are copied at a time.
_PIECE_BYTES = 1 << 20

#: Returns a piece of a package at an offset from the scheduler; None for an unknown package.
Fetch = Callable[[str, int], Awaitable[bytes | None]]


class Packages:
    """The unpacked packages of a node, by their URIs."""

    def __init__(self, directory: Path, fetch: Fetch) -> None:
        self._directory = directory
        self._fetch = fetch
        self._unpacking: dict[str, asyncio.Task[Path]] = {}

    async def folder(self, uri: str) -> Path:
        """Return the folder with the content of a package.

        Raises
        ------
        OSError, ValueError
            When it does not exist, or is not a valid archive.
        """
        scheme, _, path = uri.partition("://")
        if scheme == "local":
            if not Path(path).is_dir():
                raise ValueError(
                    f"{uri} names a folder that must exist on every node, but does not exist here."
                )
            return Path(path)
        return await shared_tasks.result(
            self._unpacking, uri, lambda: self._bring(scheme, uri, Path(path))
        )

    async def _bring(self, scheme: str, uri: str, path: Path) -> Path:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = uuid.uuid4().hex
        target = self._directory / f"{path.name.partition('.')[0]}-{name[:8]}"
        if scheme == "file":
            if not path.is_file():
                raise ValueError(
                    f"{uri} names a file that must exist on every node, but does not exist here."
                )
            await asyncio.to_thread(_unpack, path, target, name, is_uploaded=False)
            return target
        archive = self._directory / f"{name}-{path.name}"
        try:
            await self._download(uri, archive)
            await asyncio.to_thread(_unpack, archive, target, name, is_uploaded=True)
        finally:
            archive.unlink(missing_ok=True)
        return target

    async def _download(self, uri: str, archive: Path) -> None:
        digest, size = hashlib.sha256(), 0
        with archive.open("wb") as file:
            while piece := await self._fetch(uri, size):
                digest.update(piece)
                size += len(piece)
                await asyncio.to_thread(file.write, piece)
        if not size:
            raise ValueError(
                f"{uri} is not in the cluster: packages go with the job that has uploaded them."
            )
        if digest.hexdigest()[:40] not in uri:
            raise OSError(f"{uri} did not arrive complete: its {size} bytes have a different hash.")

    def release(self, uri: str) -> None:
        """Remove an unpacked package that is not needed any more."""
        unpacking = self._unpacking.pop(uri, None)
        if unpacking is not None:
            unpacking.add_done_callback(_remove)


def _remove(unpacking: asyncio.Task[Path]) -> None:
    if not unpacking.cancelled() and unpacking.exception() is None:
        asyncio.get_running_loop().run_in_executor(
            None, lambda: shutil.rmtree(unpacking.result(), ignore_errors=True)
        )


# --- archives -------------------------------------------------------------------------------------


def _unpack(archive: Path, target: Path, name: str, *, is_uploaded: bool) -> None:
    """Unpack an archive; `target` exists only when it is complete."""
    under_way = target.with_name(f"{name}.unpacking")
    try:
        under_way.mkdir()
        if archive.name.endswith((".zip", ".whl")):
            _unzip(archive, under_way)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(under_way, filter="data")
        if archive.name.endswith(".whl"):
            _spread_wheel(under_way)
        elif not is_uploaded:
            _lift_single_folder(under_way)
        under_way.replace(target)
    except (zipfile.BadZipFile, tarfile.TarError) as error:
        raise ValueError(f"{archive.name} is not a valid archive: {error}") from error
    finally:
        shutil.rmtree(under_way, ignore_errors=True)


def _unzip(archive: Path, target: Path) -> None:
    """Extract with permissions and links, which `zipfile` omits; none leads out of `target`."""
    with zipfile.ZipFile(archive) as zipped:
        links = []
        for entry in zipped.infolist():
            made = Path(zipped.extract(entry, target))
            if stat.S_ISLNK(entry.external_attr >> 16):
                links.append(made)
                continue
            mode = stat.S_IMODE(entry.external_attr >> 16)
            if mode and not made.is_symlink():
                made.chmod(mode | stat.S_IRUSR | stat.S_IWUSR | (made.is_dir() and stat.S_IXUSR))
    for made in links:  # after all files, so that none is written through a link
        _make_link(made, target)


def _make_link(made: Path, target: Path) -> None:
    """Replace an extracted file, which has the target of a link, by the link."""
    leads_to = made.read_bytes()
    place = os.path.normpath(os.path.join(os.fsencode(made.parent), leads_to))
    if Path(os.fsdecode(place)).is_relative_to(target):
        made.unlink()
        os.symlink(leads_to, made)


def _lift_single_folder(folder: Path) -> None:
    """Move the content of an archive's only folder up, as Ray does."""
    inside = [each for each in folder.iterdir() if each.name != "__MACOSX"]
    if len(inside) != 1 or not inside[0].is_dir():
        return
    single = inside[0].rename(folder / uuid.uuid4().hex)
    for each in list(single.iterdir()):
        each.rename(folder / each.name)
    single.rmdir()
    shutil.rmtree(folder / "__MACOSX", ignore_errors=True)


def _spread_wheel(folder: Path) -> None:
    """Move the modules in a wheel's data folder where they can be imported; ignore the rest."""
    for data in folder.glob("*.data"):
        for kind in ("purelib", "platlib"):
            if (data / kind).is_dir():
                shutil.copytree(data / kind, folder, dirs_exist_ok=True)
