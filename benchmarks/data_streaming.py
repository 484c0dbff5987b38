"""Shared memory while a data set flows through a store that is many times smaller, beside real Ray.

    python benchmarks/data_streaming.py
    python benchmarks/data_streaming.py --vs ray --ray-python .venv-ray/bin/python --json streaming.json
    python benchmarks/data_streaming.py --from streaming.json --plot docs/_static/data_streaming.svg

Tasks make arrays and double them, and the driver reads all of them in batches. The store's memory is
that of ``/dev/shm``, so nothing else may use it: start this in a mount namespace with a separate one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import beside_ray
import psutil
import report
from put_get_by_size import line, text

#: Bytes of the store, of a row, and how many times larger the data set is.
STORE_BYTES, ROW_BYTES, TIMES = 128 * 2**20, 2**20, 50

#: Parts of the run; the most memory in each is a figure.
NUM_PARTS = 25

#: The name of a figure, by the part of the run that has been read.
PART = "store at {} % (MB)"


class Store:
    """The most bytes that were in /dev/shm since the last look."""

    def __init__(self) -> None:
        self._before = shutil.disk_usage("/dev/shm").used
        self._most = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Store:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self._most = max(self._most, shutil.disk_usage("/dev/shm").used - self._before)

    def most_mb(self) -> float:
        """Return it in megabytes, and begin again."""
        most, self._most = self._most, 0
        return most / 1e6


def cpu_s() -> float:
    """Return the seconds of CPU that this process and those below it have used."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:  # its parent has its time now
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def stream(impl: str) -> beside_ray.Figures:
    """Return the most memory of the store in each part of a run, and the CPU time of the run."""
    ray = importlib.import_module(impl)
    data = importlib.import_module(f"{impl}.data")
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = 8 * 2**20
    with Store() as store:
        ray.init(
            num_cpus=2,
            object_store_memory=STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
        )
        num_rows = TIMES * STORE_BYTES // ROW_BYTES
        rows = data.range_tensor(num_rows, shape=(ROW_BYTES // 8,))
        doubled = rows.map_batches(lambda batch: {"data": batch["data"] * 2})
        begin, num_read, figures = cpu_s(), 0, {}
        for batch in doubled.iter_batches(batch_size=8):
            num_read += len(batch["data"])
            part = num_read * NUM_PARTS // num_rows
            if part > len(figures):
                figures[PART.format(100 * part // NUM_PARTS)] = store.most_mb()
        assert num_read == num_rows
        name = f"{TIMES} stores of data (CPU s)"
        made = {**figures, "most in the store (MB)": max(figures.values()), name: cpu_s() - begin}
        ray.shutdown()
    return made


COLOURS = {"raycompat": "#2b83d9", "Ray": "#db6d1a"}
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 560, 280, 60, 20, 45


def picture(figures: dict[str, tuple[float, float]]) -> str:
    """Return the memory of the store over the run as SVG."""
    parts = range(100 // NUM_PARTS, 101, 100 // NUM_PARTS)
    store_mb = STORE_BYTES / 1e6
    across, up = "part of the data that has been read", "MB in the store"
    highest = 1.25 * max(store_mb, *(max(figures[PART.format(part)]) for part in parts))

    def place(percent: float, megabytes: float) -> tuple[float, float]:
        y = TOP + (HEIGHT - TOP - BOTTOM) * (1 - megabytes / highest)
        return LEFT + (WIDTH - LEFT - 15) * percent / 100, y

    begin = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{up}" font-family="sans-serif" fill="#606870">'
    )
    drawn = [
        begin,
        line([place(0, store_mb), place(100, store_mb)], "#808890", width=1),
        text(LEFT + 4, place(0, store_mb)[1] - 6, "size of the store", size=11),
        text((LEFT + WIDTH) / 2, HEIGHT - 8, across, anchor="middle", size=12),
        text(LEFT - 50, TOP - 6, up, size=11),
    ]
    drawn += [
        text(LEFT - 8, place(0, megabytes)[1] + 4, f"{megabytes:.0f}", anchor="end")
        for megabytes in (0, store_mb / 2, store_mb)
    ]
    for percent in range(0, 101, 25):
        x = place(percent, 0)[0]
        drawn.append(text(x, HEIGHT - 27, f"{percent} %", anchor="middle"))
    for index, (name, colour) in enumerate(COLOURS.items()):
        points = [place(part, figures[PART.format(part)][index]) for part in parts]
        drawn.append(line(points, colour, width=2))
        x, y = points[-3]
        drawn.append(text(x, y - 6, name, anchor="middle", size=12, colour=colour))
    return "\n".join([*drawn, "</svg>\n"])


def main() -> None:
    """Measure, or draw what was measured."""
    if "--from" not in sys.argv:
        beside_ray.main(__file__, __doc__, {"stream": stream})
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="source", type=Path, required=True)
    parser.add_argument("--plot", type=Path, required=True)
    given = parser.parse_args()
    rounds: dict[str, list[dict[str, Any]]] = json.loads(given.source.read_text())
    given.plot.write_text(picture(report.medians(rounds)), encoding="utf-8")


if __name__ == "__main__":
    main()
