"""What only Linux has is in `raycompat._host`, and that package imports nothing else of raycompat."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import raycompat

PACKAGE = Path(raycompat.__file__).parent
HOST = PACKAGE / "_host"

#: Modules that not every system has, or that do other things there.
MODULES = {"fcntl", "resource", "_posixshmem", "multiprocessing.shared_memory"}

#: Beginnings of names in modules that every system has.
NAMES = {
    "os": (
        "copy_file_range EFD_ eventfd fork getrandom memfd_create MFD_ O_DIRECT O_PATH O_TMPFILE pidfd_open "
        "posix_fadvise posix_fallocate sched_ setns splice timerfd unshare waitid"
    ),
    "select": "epoll EPOLL",
    "signal": "pidfd_send_signal set_wakeup_fd sigtimedwait sigwaitinfo",
    "socket": (
        "AF_NETLINK AF_VSOCK MSG_CMSG_CLOEXEC recv_fds SCM_ send_fds SO_PASSCRED SO_PEERCRED SOCK_CLOEXEC "
        "SOCK_NONBLOCK SOCK_SEQPACKET TCP_KEEPIDLE TCP_USER_TIMEOUT"
    ),
    "mmap": "MAP_POPULATE",
    # The C library, whose functions and structures differ.
    "ctypes": "CDLL PyDLL cdll pydll util",
}

#: Folders of Linux. The portable `os.devnull` is a name, not a text.
FOLDERS = ("/proc", "/sys", "/dev")


def uses(source: str) -> list[str]:
    """Return what only Linux has in a module's source, as `line: what`."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    modules = _names_of_modules(tree)
    return [
        f"{node.lineno}: {what}"
        for node in ast.walk(tree)
        if id(node) not in docstrings
        for what in _uses_of_node(node, modules)
    ]


def _names_of_modules(tree: ast.Module) -> dict[str, str]:
    """Return the names under which a source has imported modules: `{"clock": "time"}`."""
    return {
        each.asname or each.name: each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for each in node.names
    }


def _uses_of_node(node: ast.AST, modules: dict[str, str]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names if each.name in MODULES)
        case ast.ImportFrom(module=str(module), names=names):
            if module in MODULES:
                yield module
            for each in names:
                full = f"{module}.{each.name}"
                if full in MODULES or _is_of_linux(module, each.name):
                    yield full
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            if _is_of_linux(modules.get(name, ""), attribute):
                yield f"{modules[name]}.{attribute}"
        case ast.Constant(value=str(text)) if text.startswith(FOLDERS):
            if any(text == folder or text.startswith(f"{folder}/") for folder in FOLDERS):
                yield text
        case ast.Constant(value=str(text) | bytes(text)) if len(text) > 1 and text[0] in ("\0", 0):
            yield f"an abstract name: {text!r}"
        case ast.BinOp(left=ast.Constant(value="\0" | b"\0"), op=ast.Add()):
            yield "an abstract name"
        case ast.JoinedStr(values=[ast.Constant(value="\0"), _, *_]):
            yield "an abstract name"


def _is_of_linux(module: str, name: str) -> bool:
    return name.startswith(tuple(NAMES.get(module, "").split()))


def test_what_only_linux_has_is_in_one_package():
    found = {
        str(path.relative_to(PACKAGE)): uses(path.read_text())
        for path in PACKAGE.rglob("*.py")
        if HOST not in path.parents
    }
    assert not {name: each for name, each in found.items() if each}


def test_the_package_has_it():
    """Else this file would look for the wrong things."""
    found = " ".join(each for path in HOST.glob("*.py") for each in uses(path.read_text()))
    for what in (
        "os.memfd_create",
        "os.fork",
        "/proc/",
        "/dev/shm",
        "select.epoll",
        "socket.SO_PEERCRED",
        "fcntl",
    ):
        assert what in found


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import fcntl", "fcntl"),
        ("from resource import getrlimit", "resource"),
        ("from multiprocessing import shared_memory", "multiprocessing.shared_memory"),
        ("import os\ndescriptor = os.memfd_create('x')", "os.memfd_create"),
        ("import os as system\nsystem.fork()", "os.fork"),
        ("from os import eventfd", "os.eventfd"),
        ("import select\nselect.epoll()", "select.epoll"),
        ("import signal\nsignal.set_wakeup_fd(3)", "signal.set_wakeup_fd"),
        ("import socket\nsocket.recv_fds(stream, 1, 1)", "socket.recv_fds"),
        ("import ctypes\nctypes.CDLL(None)", "ctypes.CDLL"),
        ("folder = '/dev/shm'", "/dev/shm"),
        ("open(f'/proc/{pid}/stat')", "/proc/"),
        ("Path('/sys/fs/cgroup')", "/sys/fs/cgroup"),
        ("stream.connect('\\0' + name)", "an abstract name"),
        ("stream.bind(f'\\0raycompat-{port}')", "an abstract name"),
        ("stream.bind(f'\\0{name}')", "an abstract name"),
        ("stream.bind('\\0raycompat')", "an abstract name"),
    ],
)
def test_each_kind_is_found_at_another_place(source, what):
    (found,) = uses(source)
    assert what in found


@pytest.mark.parametrize(
    "source",
    [
        '"""Values are in /dev/shm."""',
        'def f():\n    """/proc has it."""',
        "text = 'values are in /dev/shm'",
        "import os\nos.getpid(), os.devnull, os.killpg(1, 2)",
        "folder = '/process'",
        "is_bad = '\\0' in text",
        "import ctypes\nctypes.c_char.from_buffer(room)",
        "import socket\nsocket.socket(socket.AF_UNIX)",
    ],
)
def test_what_other_systems_have_too_is_not_found(source):
    assert not uses(source)


def test_the_package_imports_nothing_else_of_raycompat():
    for path in HOST.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    modules = [each.name for each in names]
                case ast.ImportFrom(module=str(module)):
                    modules = [module]
                case _:
                    continue
            for module in modules:
                is_own = module.split(".")[0] == "raycompat"
                assert not is_own or module.split(".")[1:2] == ["_host"], path


@pytest.mark.parametrize(
    "module", ["raycompat", "raycompat._cli.commands", "raycompat._executor.main", "raycompat.tune"]
)
def test_another_system_gets_one_error_before_all_else(module):
    """As far as that can be tried on Linux."""
    program = (
        "import importlib, sys\n"
        "sys.platform = 'darwin'\n"
        "before = set(sys.modules)\n"
        "try:\n"
        "    importlib.import_module(sys.argv[1])\n"
        "except ImportError as error:\n"
        "    print(error)\n"
        "    own = {each for each in set(sys.modules) - before if each.split('.')[0] in ('raycompat', 'dask')}\n"
        "    sys.exit(f'more was imported: {own}' if own else 0)\n"
        "sys.exit('nothing was raised')"
    )
    command = [sys.executable, "-c", program, module]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("raycompat runs on Linux only, and this Python is for 'darwin'.")
