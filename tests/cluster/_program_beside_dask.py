"""A program with Ray's API on a Dask cluster that another user restarts: ``ADDRESS FILE``.

It prints a line after each round, and ends when the file exists.
"""

from __future__ import annotations

import os
import sys

import numpy as np

import raycompat as ray
from raycompat.exceptions import ActorUnavailableError, ObjectLostError

#: Seconds in which a round must have its values: workers restart meanwhile.
ROUND_S = 120

BY_USER = ("was restarted by", "was retired by")


@ray.remote(num_cpus=0, max_retries=-1)
def make(number):
    return np.full(40_000, number)


@ray.remote(num_cpus=0, max_retries=-1)
def total(*arrays):
    return int(sum(array.sum() for array in arrays))


@ray.remote(num_cpus=0, max_retries=-1)
def nested(number):
    return ray.get(total.remote(make.remote(number)))


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Keeper:
    def __init__(self):
        self.kept = {}

    def keep(self, number):
        self.kept[number] = np.full(1000, number)
        return int(self.kept[number].sum())


@ray.remote(num_cpus=0, max_restarts=-1)
class Mortal:
    async def double(self, number):
        return 2 * number


def one_round(number, keeper, mortal):
    """Use tasks by leases and by the scheduler, values, actors and a placement group; check all values."""
    by_lease = [make.remote(each) for each in range(4)]
    by_scheduler = [make.options(scheduling_strategy="SPREAD").remote(each) for each in range(4)]
    sums = [total.remote(*by_lease, *by_scheduler), nested.remote(number)]
    kept = [keeper.keep.remote(each) for each in range(3)]
    assert ray.get(sums, timeout=ROUND_S) == [2 * 6 * 40_000, number * 40_000]
    assert ray.get(kept, timeout=ROUND_S) == [0, 1000, 2000]
    put = ray.put(np.full(40_000, number))
    read = total.options(scheduling_strategy="SPREAD").remote(put)
    try:
        assert ray.get(read, timeout=ROUND_S) == number * 40_000
    except ObjectLostError as error:  # a value that was put cannot be computed again
        assert any(each in str(error) for each in BY_USER), error
    try:
        assert ray.get(mortal.double.remote(number), timeout=ROUND_S) == 2 * number
    except ActorUnavailableError:  # it restarts
        pass
    group = ray.util.placement_group([{"CPU": 1}])
    assert group.wait(ROUND_S)
    ray.util.remove_placement_group(group)


def main(address: str, end: str) -> None:
    ray.init(address=address, configure_logging=False, log_to_driver=False)
    keeper, mortal = Keeper.remote(), Mortal.remote()
    number = 0
    while True:
        one_round(number, keeper, mortal)
        number += 1
        print(number, flush=True)
        if os.path.exists(end):
            break
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
