"""Walk through `docs/two_machines.rst`: type its commands on two machines, and keep what they print.

    python docs/_tools/two_machines.py docs/_static

The machines are network namespaces of this one, with separate addresses and a separate /dev/shm. So it
needs root on Linux; the picture of the dashboard needs Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from watching_pictures import CELLS_JS, WIDTH, open_page, wait_until

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "cluster"))

import _hosts  # noqa: E402
from chromium import Chromium, find  # noqa: E402

#: The names of the machines, in the order of their addresses.
NAMES = ("head", "node")
#: The height of the picture, which has to be taken before the program ends.
HEIGHT = 690
#: On a second line of the page.
WITH_PASSWORD = " \\\n        --redis-password-file=password"
PROGRAMS = ("count_primes.py", "share_array.py", "train_digits.py")


class Typed(NamedTuple):
    """A command that is typed on a machine, and the lines of its output that the page shows."""

    machine: str
    command: str
    shown: slice = slice(None)


START = "raycompat start --head --num-cpus=1 --node-ip-address={head}" + WITH_PASSWORD
JOIN = "raycompat start --num-cpus=1 --address={head}:6379" + WITH_PASSWORD

#: The parts of the page, each a file.
WALK = {
    "start": [
        Typed("head", "(umask 077; openssl rand -hex 32 > password)"),
        Typed("head", START, slice(5)),
        Typed("head", "export RAYCOMPAT_PASSWORD_FILE=$PWD/password"),
        Typed("head", "python count_primes.py"),
    ],
    "join": [Typed("node", JOIN, slice(7))],
    "status": [Typed("head", "raycompat status", slice(-1))],
    "both": [Typed("head", "python count_primes.py")],
    "from_node": [
        Typed("node", "export RAY_ADDRESS={head}:6379 RAYCOMPAT_PASSWORD_FILE=$PWD/password"),
        Typed("node", "python count_primes.py"),
    ],
    "values": [Typed("head", "python share_array.py")],
    "train": [Typed("head", "python train_digits.py 2> log", slice(1))],
    "loss": [
        Typed("head", "python count_primes.py & sleep 4"),
        Typed("node", "raycompat stop --force"),
        Typed("head", "wait"),
        Typed("head", "raycompat status", slice(5)),
    ],
    "stop": [Typed("head", "raycompat stop")],
}


class Shell:
    """A shell on a machine, in a folder that has the programs of the page."""

    def __init__(self, host: _hosts.Host, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in PROGRAMS:
            shutil.copy(ROOT / "tutorials" / name, folder)
        places = {"HOME": str(folder), "TMPDIR": str(folder), "FOLDER": str(folder)}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        # On a busy computer, the figures are those of a quiet one if the walk and its tasks go first.
        kept = {n: os.environ[n] for n in ("LANG", "RAY_worker_niceness") if n in os.environ}
        self._process = subprocess.Popen(
            # In the machine, the folder is not that of this process.
            [*host.inside, "bash", "-c", 'cd "$FOLDER" && exec bash'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**kept, **places, "PATH": path},
            text=True,
        )

    def type(self, command: str) -> list[str]:
        """Return the lines that a command prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\necho end of it\n")
        self._process.stdin.flush()
        lines = []
        while (line := self._process.stdout.readline()) != "end of it\n":
            if not line:
                raise RuntimeError(f"The shell has ended at {command!r}: {lines}")
            lines.append(line.rstrip())
        return lines

    def close(self) -> None:
        """End the shell, and what it has started."""
        self.type("raycompat stop --force")
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


def walk(picture: Path | None = None) -> dict[str, str]:
    """Return what the page shows, by names; the picture is taken while both machines compute."""
    with tempfile.TemporaryDirectory() as folder:
        hosts = _hosts.Hosts()
        shells: dict[str, Shell] = {}
        try:
            machines = {name: hosts.add(name) for name in NAMES}
            for name, host in machines.items():
                shells[name] = Shell(host, Path(folder, name))
            addresses = {name: host.address for name, host in machines.items()}
            shown = {}
            for file, part in WALK.items():
                shown[file] = _output(shells, part, addresses)
                if file == "start":
                    shutil.copy(shells["head"].folder / "password", shells["node"].folder)
                if file == "both" and picture is not None:
                    _take_inside(machines["head"], shells["head"], picture)
        finally:
            for shell in shells.values():
                shell.close()
            hosts.close()
    return shown


def _output(shells: dict[str, Shell], part: list[Typed], addresses: dict[str, str]) -> str:
    """Type the commands of a part; return them with what they print."""
    lines: list[str] = []
    for each in part:
        command = each.command.format(**addresses)
        printed = shells[each.machine].type(command)
        lines += [f"{each.machine}$ {command}", *printed[each.shown]]
        while not lines[-1]:
            lines.pop()
    return "\n".join(lines) + "\n"


def _take_inside(host: _hosts.Host, shell: Shell, picture: Path) -> None:
    """Take the picture by a browser on the machine, which the dashboard is open to."""
    status = "\n".join(shell.type("raycompat status"))
    found = re.search(r"^Dashboard: (\S+)", status, re.MULTILINE)
    assert found is not None, status
    shell.type("until [ -e taken ]; do python count_primes.py; done > /dev/null 2>&1 &")
    command = [
        *host.inside,
        sys.executable,
        __file__,
        "--dashboard",
        found[1],
        str(picture.resolve()),
    ]
    subprocess.run(command, check=True)
    shell.type("touch taken; wait")


async def take(url: str, file: Path) -> None:
    """Take a picture of the page *Ray* while the program runs."""
    executable = find()
    if executable is None:
        sys.exit("There is no Chromium.")
    async with Chromium(executable) as browser:
        # The authority of the certificate is made from the cluster's password.
        await browser.send("Security.setIgnoreCertificateErrors", ignore=True)
        await browser.resize(WIDTH, HEIGHT)
        await browser.go(url)  # its token becomes a cookie
        await open_page(browser, f"{url.partition('/status')[0]}/ray")

        async def runs_on_both() -> bool:
            rows: list[list[str]] = await browser.evaluate(CELLS_JS)
            return sum("count_primes" in cells for cells in rows) == len(NAMES)

        async def is_taken() -> bool:
            if not await runs_on_both():
                return False
            await browser.picture(file)
            return await runs_on_both()  # still, after the picture

        await wait_until(is_taken, "A call on each machine")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dashboard", help="only take the picture, of the dashboard there")
    parser.add_argument("target", type=Path, help="the folder, or the picture's file")
    given = parser.parse_args()
    if given.dashboard:
        asyncio.run(take(given.dashboard, given.target))
        return
    if reason := _hosts.why_not():
        sys.exit(f"No two machines here: it {reason}")
    for name, text in walk(given.target / "two_machines.png").items():
        (given.target / f"two_machines_{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
