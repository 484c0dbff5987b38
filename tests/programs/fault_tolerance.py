"""Failures: exceptions and processes that end are tried again, and a checkpoint is read."""

import json
import os
import tempfile

import ray

ray.init(num_cpus=2, include_dashboard=False)

folder = tempfile.mkdtemp()


@ray.remote(max_retries=3, retry_exceptions=[ConnectionError])
def fetch(name):
    path = os.path.join(folder, name)
    with open(path, "a") as file:
        file.write("x")
    if os.path.getsize(path) < 3:
        raise ConnectionError(name)
    return os.path.getsize(path)


@ray.remote(max_restarts=1, max_task_retries=1)
class Saving:
    def __init__(self, path):
        self.path = path
        self.state = {"count": 0}
        if os.path.exists(path):
            with open(path) as file:
                self.state = json.load(file)

    def add(self):
        self.state["count"] += 1
        with open(self.path, "w") as file:
            json.dump(self.state, file)
        return self.state["count"]

    def crash_once(self):
        mark = self.path + ".crashed"
        if not os.path.exists(mark):
            open(mark, "w").close()
            os._exit(1)
        return self.state["count"]


print("Tries:", ray.get(fetch.remote("page")))
saving = Saving.remote(os.path.join(folder, "state.json"))
print("Counted:", ray.get([saving.add.remote() for _ in range(3)]))
print("After the crash:", ray.get(saving.crash_once.remote()))
