"""An actor with coroutines: it runs and answers at the same time."""

import asyncio

import ray

ray.init(num_cpus=2, include_dashboard=False)


@ray.remote
class Trainer:
    def __init__(self):
        self.step = 0
        self.is_wanted = True

    async def run(self):
        while self.is_wanted:
            self.step += 1
            await asyncio.sleep(0)
        return self.step

    async def progress(self):
        return self.step

    async def stop(self):
        self.is_wanted = False


trainer = Trainer.remote()
run = trainer.run.remote()
first = ray.get(trainer.progress.remote())
while ray.get(trainer.progress.remote()) <= first:
    pass
ray.get(trainer.stop.remote())
print("Steps grow:", ray.get(run) > first)
