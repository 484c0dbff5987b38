"""Local folders and modules of a job's runtime environment: packed in this process, uploaded once.

A package is an archive whose name is the hash of its content, so the cluster needs only new packages.
Packages of any size are read and sent in pieces.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from raycompat._protocol import runtime_env
from raycompat._protocol.operations import Request, ask
from raycompat.exceptions import RuntimeEnvSetupError

#: Bytes of one piece.
PIECE_BYTES = 4 << 20

#: Bytes of the largest package, unless Ray's variable sets another limit.
_LIMIT_BYTES = 512 << 20
_LIMIT_VARIABLE = "RAY_max_grpc_message_size"

#: Files that are not packed with a working directory, unless Ray's variable sets others.
_DEFAULT_EXCLUDES = ".git,.venv,venv,__pycache__"

#: The time of every file in a package, so that its hash depends on content only.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Package:
    """An archive on this machine, and its name in the cluster."""

    uri: str
    path: Path


# --- which files ----------------------------------------------------------------------------------


def _patterns(root: Path, lines: list[str]) -> Callable[[Path, bool], bool]:
    import pathspec

    spec = pathspec.GitIgnoreSpec.from_lines(lines)

    def is_excluded(path: Path, is_folder: bool) -> bool:
        name = path.relative_to(root).as_posix()
        return name != "." and (
            spec.match_file(name) or (is_folder and spec.match_file(f"{name}/"))
        )

    return is_excluded


def files_of(root: Path, excludes: list[str]) -> Iterator[Path]:
    """Return the files and empty folders in a folder, sorted, without the excluded ones.

    `excludes` are patterns as in ``.gitignore``. The lines of ``.gitignore`` and ``.rayignore`` files,
    in the folder and below, are patterns too.
    """
    ignored = [".rayignore"]
    if os.environ.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "0") != "1":
        ignored.append(".gitignore")
    yield from _walk(root, [_patterns(root, excludes)], ignored)


def _walk(
    folder: Path, rules: list[Callable[[Path, bool], bool]], ignored: list[str]
) -> Iterator[Path]:
    own = [folder / name for name in ignored if (folder / name).is_file()]
    rules = rules + [_patterns(folder, path.read_text().splitlines()) for path in own]
    entries = sorted(folder.iterdir())
    if not entries:
        yield folder
    for entry in entries:
        is_folder = entry.is_dir()
        if any(is_excluded(entry, is_folder) for is_excluded in rules):
            continue
        if is_folder and entry.is_symlink() and folder.resolve().is_relative_to(entry.resolve()):
            continue  # a link to a folder above
        if is_folder:
            yield from _walk(entry, rules, ignored)
        elif entry.is_file():  # skips sockets and broken links
            yield entry


# --- packages -------------------------------------------------------------------------------------


def _limit_bytes() -> int:
    value = os.environ.get(_LIMIT_VARIABLE, "")
    return int(value) if value.isdecimal() else _LIMIT_BYTES


def _check_size(num_bytes: int, what: str) -> None:
    limit = _limit_bytes()
    if num_bytes >= limit:
        raise RuntimeEnvSetupError(
            f"{what} cannot be uploaded to the cluster: it has at least {num_bytes / 2**20:.2f} MiB, "
            f"which exceeds the maximum size of {limit / 2**20:.2f} MiB. Exclude large files "
            "(runtime_env['excludes'], '.gitignore' or '.rayignore'), or put the package where every "
            f"node has it and name it by file:// or local://. The limit is in {_LIMIT_VARIABLE}."
        )


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:40]


def _uri(path: Path, ending: str) -> str:
    return f"gcs://_ray_pkg_{_hash(path)}{ending}"


def _zip_folder(folder: Path, within: str, excludes: list[str], target: Path) -> None:
    num_bytes = 0
    with zipfile.ZipFile(target, "w") as archive:
        for path in files_of(folder, excludes):
            name = f"{within}{path.relative_to(folder).as_posix()}"
            num_bytes += 0 if path.is_dir() else path.stat().st_size
            _check_size(num_bytes, str(folder))
            _add(archive, path, name)


def _add(archive: zipfile.ZipFile, path: Path, name: str) -> None:
    is_folder = path.is_dir()
    if is_folder and name.endswith("/."):
        name = name[:-2]
    entry = zipfile.ZipInfo(f"{name}/" if is_folder else name, _NO_TIME)
    entry.external_attr = (path.stat().st_mode & 0xFFFF) << 16
    if is_folder:
        archive.writestr(entry, b"")
        return
    with path.open("rb") as source, archive.open(entry, "w", force_zip64=True) as sink:
        shutil.copyfileobj(source, sink, PIECE_BYTES)


def _archive_ending(path: Path, endings: tuple[str, ...]) -> str | None:
    return next((ending for ending in endings if path.name.endswith(ending)), None)


class Packer:
    """Makes the packages of one job in a temporary folder."""

    def __init__(self, scratch: Path, excludes: list[str]) -> None:
        self.packages: list[Package] = []
        self._scratch = scratch
        self._excludes = excludes

    def working_dir(self, given: str) -> str:
        """Pack a working directory; return its URI."""
        if runtime_env.scheme_of(given):
            return given
        path = Path(given).absolute()
        if path.is_dir():
            overridden = os.environ.get("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES")
            default = _DEFAULT_EXCLUDES if overridden is None else overridden
            names = [name.strip() for name in default.split(",") if name.strip()]
            return self._folder(path, "", [*names, *self._excludes])
        ending = _archive_ending(path, runtime_env.ARCHIVES)
        if ending is None:
            raise ValueError(
                f"working_dir {given} must be an existing directory, or an archive that ends in "
                f"{', '.join(runtime_env.ARCHIVES)}."
            )
        return self._archive(path, ending)

    def module(self, given: str | Path | ModuleType) -> str:
        """Pack a module; return its URI."""
        if isinstance(given, str) and runtime_env.scheme_of(given):
            return given
        path = Path(_path_of_module(given) if isinstance(given, ModuleType) else given).absolute()
        if path.is_dir():
            return self._folder(path, f"{path.name}/", self._excludes)
        if path.suffix == ".py" and path.is_file():
            return self._file(path)
        ending = _archive_ending(path, (*runtime_env.ARCHIVES, ".whl"))
        if ending is None or not path.is_file():
            raise ValueError(
                f"py_modules: {given} cannot be packed. An entry is a folder, a .py file, a .whl file "
                "or an archive."
            )
        return self._archive(path, ending)

    def _folder(self, folder: Path, within: str, excludes: list[str]) -> str:
        target = self._new_file()
        _zip_folder(folder, within, excludes, target)
        return self._keep(target, ".zip")

    def _file(self, path: Path) -> str:
        target = self._new_file()
        _check_size(path.stat().st_size, str(path))
        with zipfile.ZipFile(target, "w") as archive:
            _add(archive, path, path.name)
        return self._keep(target, ".zip")

    def _archive(self, path: Path, ending: str) -> str:
        _check_size(path.stat().st_size, str(path))
        return self._keep(path, ".tar.gz" if ending == ".tgz" else ending)

    def _new_file(self) -> Path:
        return self._scratch / f"{len(self.packages)}.zip"

    def _keep(self, path: Path, ending: str) -> str:
        uri = _uri(path, ending)
        self.packages.append(Package(uri, path))
        return uri


def _path_of_module(module: ModuleType) -> str:
    paths = list(getattr(module, "__path__", ())) or [module.__file__]
    if len(paths) > 1 or paths[0] is None:
        raise ValueError(
            f"py_modules only supports modules in one folder or one file; {module.__name__} is in "
            f"{paths}."
        )
    return str(paths[0])


def pack(fields: dict[str, Any], scratch: Path) -> tuple[dict[str, Any], list[Package]]:
    """Return a job's environment with the URIs of its packages, and the packages.

    Raises
    ------
    ValueError
        When something cannot be packed.
    RuntimeEnvSetupError
        When a package is too large, or a file cannot be read.
    """
    fields = dict(fields)
    packer = Packer(scratch, fields.pop("excludes", []))
    try:
        if "py_modules" in fields:
            fields["py_modules"] = [packer.module(each) for each in fields["py_modules"]]
        if "working_dir" in fields:
            fields["working_dir"] = packer.working_dir(fields["working_dir"])
    except OSError as error:
        raise RuntimeEnvSetupError(
            f"Failed to pack the files of the runtime_env: {error}"
        ) from error
    return fields, packer.packages


async def upload(scheduler: Any, client: str, packages: list[Package]) -> None:
    """Store packages in the scheduler as long as the client's job needs them."""
    for package in packages:
        about = {"client": client, "uri": package.uri}
        if await ask(scheduler, Request.PACKAGE_BEGIN, **about):
            continue
        with package.path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                await ask(scheduler, Request.PACKAGE_WRITE, **about, data=piece)
        await ask(scheduler, Request.PACKAGE_END, **about)


@contextlib.contextmanager
def upload_errors() -> Iterator[None]:
    """Raise Ray's exception class when an upload fails."""
    try:
        yield
    except OSError as error:
        raise RuntimeEnvSetupError(
            f"Failed to upload the files of the runtime_env to the cluster: {error}"
        ) from error
