"""In the style of Ray 0.5 to 1.2: named actors, tables of the cluster, the worker, metrics of the core."""

import asyncio
import json

import numpy as np
import ray
import ray.state
from ray.exceptions import RayTimeoutError, RayWorkerError
from ray.experimental import async_api, get_actor, register_actor
from ray.job_config import JobConfig
from ray.profiling import profile
from ray.util.metrics import Count, Gauge, Histogram
from ray.util.sgd import TrainingOperator

ray.init(num_cpus=2, job_config=JobConfig(worker_env={"TOWN": "Ulm"}, client_job=False))


@ray.remote
class Counter:
    def __init__(self):
        self.count = 0
        self.calls = Count("calls", description="Calls", tag_keys=("kind",))

    def add(self):
        self.count += 1
        self.calls.record(1, {"kind": "add"})
        return self.count


counter = Counter.remote()
register_actor("counter", counter)


@ray.remote
def add():
    return ray.get(ray.util.get_actor("counter").add.remote())


print("Counted:", ray.get(add.remote()), ray.get(get_actor("counter").add.remote()))
try:
    ray.util.register_actor("counter", counter)
except ValueError as error:
    print("Twice:", "another name" in str(error))


@ray.remote(num_cpus=2)
def process():
    import os

    worker = ray.worker.global_worker
    with ray.profile("part", extra_data={"a": "b"}):
        ids = ray.get_resource_ids()
    return (
        ids["CPU"],
        worker.mode == ray.worker.WORKER_MODE,
        worker.actor_id.is_nil(),
        os.environ["TOWN"],
    )


print("Process:", *ray.get(process.remote()))
worker = ray.worker.global_worker
core = ray._private.worker.global_worker.core_worker
own = [core.get_current_job_id() == worker.current_job_id, core.get_actor_id().is_nil()]
print("Ids:", *own, len(core.get_worker_id().hex()), core.get_current_node_id().is_nil())
print("Driver:", worker.mode == ray.worker.SCRIPT_MODE, worker.connected, ray.get_resource_ids())
try:
    worker.run_function_on_all_workers(print)
except NotImplementedError as error:
    print("Instead:", "worker_process_setup_hook" in str(error))

[node] = ray.state.nodes()
print("Node:", ray.state.node_ids() == [ray.state.current_node_id()], node["Alive"])
print("Page:", ray.get_webui_url() == ray.worker.get_dashboard_url())
actors = ray.state.actors()
print("Actors:", [row["State"] for row in actors.values()])
[actor] = actors
print("One actor:", ray.actors(actor)["ActorClassName"], [job["IsDead"] for job in ray.jobs()])
state = ray.global_state
print("Resources:", state.cluster_resources()["CPU"], state.client_table()[0]["IsInsertion"])
print("Tasks:", "add" in {row["Name"] for row in state.task_table().values()})
reference = ray.put(np.zeros(200_000))
loop = asyncio.new_event_loop()


async def awaited():
    return await asyncio.wait_for(async_api.as_future(add.remote()), 30)


async_api.init()
print("Awaited:", loop.run_until_complete(awaited()))
async_api.shutdown()
loop.close()
print("Calls:", "add" in str(ray.tasks()))
print("Object:", ray.objects(reference)["ObjectRef"] == reference.hex())
state.chrome_tracing_dump("trace.json")
with open("trace.json") as file:
    print("Trace:", isinstance(json.load(file), list))
with profile("of the driver"):
    Gauge("level").record(2)
    Histogram("time_s", boundaries=[1, 2]).record(1.5)

print("By key:", ray.experimental.get({"a": ray.put(1), "b": 2}))
ready, _ = ray.experimental.wait(np.array([ray.put(1)], dtype=object))
print("Ready:", ray.experimental.get(tuple(ready)))
print("Errors:", RayTimeoutError is ray.exceptions.GetTimeoutError, RayWorkerError.__name__)
print("Operator:", TrainingOperator.__name__)
