"""Local folders and modules of a job's runtime environment: packed in this process, uploaded once.

A package is an archive whose name is the hash of its content, so the cluster needs only new packages.
Packages of any size are read and sent in pieces.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from raycompat._messages.packages import BeginPackage, EndPackage, WritePackage
from raycompat._protocol import runtime_env
from raycompat._protocol.message import ask
from raycompat.exceptions import RuntimeEnvSetupError

#: Bytes of one piece.
PIECE_BYTES = 4 << 20

#: Bytes of the largest package, unless Ray's variable sets another limit.
_LIMIT_BYTES = 512 << 20
_LIMIT_VARIABLE = "RAY_max_grpc_message_size"

#: Files that are not packed with a working directory, unless Ray's variable sets others.
_DEFAULT_EXCLUDES = ".git,.venv,venv,__pycache__"

#: Folders below each other in a package. The standard library removes folders by recursion.
_MOST_FOLDERS_DEEP = 500

#: The time of every file in a package, so that its hash depends on content only.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Package:
    """An archive on this machine, and its name in the cluster."""

    uri: str
    path: Path


# --- which files ----------------------------------------------------------------------------------


class Member(NamedTuple):
    """A file or an empty folder of a package, or a link from one of its folders to another one."""

    path: Path
    #: For a link: where it leads, from the folder that it is in.
    target: str | None = None


#: Returns whether patterns exclude a path; the second argument says whether it is a folder.
_Rule = Callable[[Path, bool], bool]


def _patterns(root: Path, lines: list[str], source: object) -> _Rule:
    import pathspec

    try:
        spec = pathspec.GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise RuntimeEnvSetupError(f"{source} has a pattern that is not valid: {error}") from error

    def is_excluded(path: Path, is_folder: bool) -> bool:
        name = path.relative_to(root).as_posix()
        return name != "." and (
            spec.match_file(name) or (is_folder and spec.match_file(f"{name}/"))
        )

    return is_excluded


class _Walk:
    """Finds the members of a folder. Each real folder is read once, however many links lead to it.

    Folders are read before links are followed. So a link to a folder of the package is a link in the
    package too; a folder elsewhere is packed in place of the first link to it.
    """

    def __init__(self, root: Path, rules: list[_Rule], ignored: list[str]) -> None:
        self._root = root
        #: Names of files with patterns.
        self._ignored = ignored
        #: Where each real folder is in the package.
        self._places: dict[Path, Path] = {}
        #: Links to folders that were not followed yet, each with the rules for it.
        self._links: deque[tuple[Path, list[_Rule]]] = deque()
        self._rules = rules

    def members(self) -> Iterator[Member]:
        """Return all members."""
        yield from self._read(self._root, self._rules)
        above = {*self._root.resolve().parents}
        while self._links:
            link, rules = self._links.popleft()
            if link.resolve() not in above:
                yield from self._read(link, rules)

    def _read(self, top: Path, rules: list[_Rule]) -> Iterator[Member]:
        """Return the members in a folder, sorted, without those behind links."""
        waiting = [(top, rules)]
        while waiting:
            path, rules = waiting.pop()
            if not path.is_dir():
                yield Member(path)
                continue
            self._check_depth(path)
            place = self._places.setdefault(path.resolve(), path)
            if place is not path:
                yield Member(path, os.path.relpath(place, path.parent))
                continue
            entries = sorted(path.iterdir())
            if not entries:
                yield Member(path)
            rules = [*rules, *self._rules_in(path)]
            found = [(entry, rules) for entry in entries if self._is_read_now(entry, rules)]
            waiting += reversed(found)

    def _is_read_now(self, entry: Path, rules: list[_Rule]) -> bool:
        """Return whether an entry is a file or a folder that is not excluded; keep links for later."""
        is_folder = entry.is_dir()
        if any(is_excluded(entry, is_folder) for is_excluded in rules):
            return False
        if is_folder and entry.is_symlink():
            self._links.append((entry, rules))
            return False
        return is_folder or entry.is_file()  # not a socket, pipe, device or broken link

    def _rules_in(self, folder: Path) -> list[_Rule]:
        own = [folder / name for name in self._ignored if (folder / name).is_file()]
        return [
            _patterns(folder, path.read_text("utf-8", "surrogateescape").splitlines(), path)
            for path in own
        ]

    def _check_depth(self, folder: Path) -> None:
        depth = len(folder.parts) - len(self._root.parts)
        if depth > _MOST_FOLDERS_DEEP:
            raise RuntimeEnvSetupError(
                f"{folder} is {depth} folders below {self._root}. A package can have "
                f"{_MOST_FOLDERS_DEEP}: exclude it (runtime_env['excludes'], '.gitignore' or "
                "'.rayignore')."
            )


def members_of(root: Path, excludes: list[str]) -> Iterator[Member]:
    """Return what a folder contains without the excluded files.

    `excludes` are patterns as in ``.gitignore``. The lines of ``.gitignore`` and ``.rayignore`` files,
    in the folder and below, are patterns too.
    """
    ignored = [".rayignore"]
    if os.environ.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "0") != "1":
        ignored.append(".gitignore")
    rules = [_patterns(root, excludes, "runtime_env['excludes']")]
    return _Walk(root, rules, ignored).members()


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


class _Archive:
    """An archive that is being written, of limited size."""

    def __init__(self, target: Path, source: Path) -> None:
        self._zip = zipfile.ZipFile(target, "w")
        self._source = source
        self._num_bytes = 0

    def __enter__(self) -> _Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def add(self, member: Member, name: str) -> None:
        """Add a member under a name."""
        path, target = member
        try:
            name.encode()
        except UnicodeEncodeError:
            raise RuntimeEnvSetupError(
                f"{os.fsencode(path)!r} cannot be uploaded to the cluster: its name is not UTF-8. "
                "Rename it, or exclude it (runtime_env['excludes'], '.gitignore' or '.rayignore')."
            ) from None
        if target is not None:
            entry = zipfile.ZipInfo(name, _NO_TIME)
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            self._zip.writestr(entry, target)
            return
        mode = path.stat().st_mode
        is_folder = stat.S_ISDIR(mode)
        if is_folder and name.endswith("/."):
            name = name[:-2]
        entry = zipfile.ZipInfo(f"{name}/" if is_folder else name, _NO_TIME)
        entry.external_attr = (mode & 0xFFFF) << 16
        if is_folder:
            self._zip.writestr(entry, b"")
        else:
            self._add_content(path, entry)

    def _add_content(self, path: Path, entry: zipfile.ZipInfo) -> None:
        self._check_size(path.stat().st_size)
        with path.open("rb") as source, self._zip.open(entry, "w", force_zip64=True) as sink:
            while piece := source.read(PIECE_BYTES):
                self._num_bytes += len(piece)
                self._check_size(0)  # another process may be writing the file
                sink.write(piece)

    def _check_size(self, num_more: int) -> None:
        _check_size(self._num_bytes + num_more, str(self._source))


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
        with _Archive(target, folder) as archive:
            for member in members_of(folder, excludes):
                archive.add(member, f"{within}{member.path.relative_to(folder).as_posix()}")
        return self._keep(target, ".zip")

    def _file(self, path: Path) -> str:
        target = self._new_file()
        with _Archive(target, path) as archive:
            archive.add(Member(path), path.name)
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


async def upload(scheduler: object, client: str, packages: list[Package]) -> None:
    """Store packages in the scheduler as long as the client's job needs them."""
    for package in packages:
        if await ask(scheduler, BeginPackage(client, package.uri)):
            continue
        with package.path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                await ask(scheduler, WritePackage(client, package.uri, piece))
        await ask(scheduler, EndPackage(client, package.uri))


@contextlib.contextmanager
def upload_errors() -> Iterator[None]:
    """Raise Ray's exception class when an upload fails."""
    try:
        yield
    except OSError as error:
        raise RuntimeEnvSetupError(
            f"Failed to upload the files of the runtime_env to the cluster: {error}"
        ) from error
