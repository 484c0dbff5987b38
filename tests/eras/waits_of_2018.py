"""In the style of Ray 0.2 to 0.6: options by position, and timeouts in milliseconds."""

import time

import ray

ray.init(num_cpus=2)


@ray.remote
def sleep():
    time.sleep(600)


sleeping = sleep.remote()
begin = time.time()
ready, rest = ray.wait([sleeping], 1, 500)
print("Half a second:", len(ready), len(rest), 0.4 < time.time() - begin < 60)
begin = time.time()
ready, rest = ray.wait([ray.put(1), sleeping], num_returns=2, timeout=100)
print("A tenth:", len(ready), len(rest), time.time() - begin < 60)
begin = time.time()
ready, rest = ray.experimental.wait((sleeping,), timeout=500)
print("Of a tuple:", len(ready), len(rest), 0.4 < time.time() - begin < 60)
