"""Count words of streams that do not end: mappers read, reducers count, and no
process keeps a stream.

Each mapper is a generator: it yields parts of its stream as it reads them. Each
reducer is an actor that counts the words which begin with its letters.
"""

from collections import Counter

import numpy as np

import raycompat as ray

NUM_MAPPERS, NUM_REDUCERS = 2, 3
#: Lines of a stream that are read here, and lines of one part.
NUM_LINES, LINES_A_PART = 2_000, 100
TEXT = (
    "the tide of a sea and the moon above it pull "
    "and the boats turn with the tide"
)


def stream(number):
    """Yield lines of words for ever: a stand-in for articles that arrive."""
    random = np.random.default_rng(number)
    while True:
        yield " ".join(random.choice(TEXT.split(), size=12))


@ray.remote(num_returns="streaming")
def count_parts(number):
    """Yield the counts of each part of a stream, by reducer."""
    lines = stream(number)
    for _ in range(NUM_LINES // LINES_A_PART):
        counts = [Counter() for _ in range(NUM_REDUCERS)]
        for _ in range(LINES_A_PART):
            for word in next(lines).split():
                counts[ord(word[0]) % NUM_REDUCERS][word] += 1
        yield counts


@ray.remote(num_cpus=0)
class Reducer:
    """Adds up the counts of the words whose number is its own."""

    def __init__(self, number):
        self.number = number
        self.counts = Counter()

    def add(self, parts):
        """Add the counts of a part of a stream."""
        self.counts.update(parts[self.number])

    def most_common(self):
        """Return the words with their counts, the most frequent first."""
        return self.counts.most_common()


def main():
    ray.init(num_cpus=NUM_MAPPERS, include_dashboard=False)
    reducers = [Reducer.remote(number) for number in range(NUM_REDUCERS)]
    streams = [count_parts.remote(number) for number in range(NUM_MAPPERS)]
    num_parts = 0
    while streams:
        (ready,), _ = ray.wait(streams)
        try:
            part = next(ready)  # a reference: the driver never gets the counts
        except StopIteration:
            streams.remove(ready)
            continue
        for reducer in reducers:
            reducer.add.remote(part)
        num_parts += 1
    counts = [
        pair
        for reducer in reducers
        for pair in ray.get(reducer.most_common.remote())
    ]
    print(f"{num_parts} parts, {sum(count for _, count in counts):,} words")
    for word, count in sorted(counts, key=lambda pair: (-pair[1], pair[0]))[:5]:
        print(f"{word:6} {count:6,}")
    ray.shutdown()


if __name__ == "__main__":
    main()
