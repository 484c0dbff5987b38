"""Count primes in twenty calls, and say on which machines the calls ran."""

import collections
import socket
import time

import raycompat as ray

STEP = 150_000


@ray.remote
def count_primes(start: int) -> tuple[str, int]:
    def is_prime(number: int) -> bool:
        divisors = range(2, int(number**0.5) + 1)
        return number > 1 and all(number % by for by in divisors)

    return socket.gethostname(), sum(map(is_prime, range(start, start + STEP)))


def main() -> None:
    ray.init(configure_logging=False, log_to_driver=False)
    starts = range(0, 20 * STEP, STEP)
    begin = time.perf_counter()
    parts = ray.get([count_primes.remote(start) for start in starts])
    seconds = time.perf_counter() - begin
    print(f"{sum(count for _, count in parts)} primes in {seconds:.1f} s")
    calls = collections.Counter(host for host, _ in parts)
    for host, num_calls in sorted(calls.items()):
        print(f"{num_calls:3} calls on {host}")


if __name__ == "__main__":
    main()
