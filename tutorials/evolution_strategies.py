"""Evolution strategies in numpy: tasks try changed weights, the driver follows
the better changes.

The changes are parts of one table of noise, which is in the object store. A
task returns the position of a change and the two returns that it brought, not
weights (Salimans et al. 2017, arXiv:1703.03864).
"""

import argparse

import gymnasium
import numpy as np
from scipy.stats import rankdata

import raycompat as ray

ENV, NUM_INPUTS, NUM_ACTIONS, NUM_HIDDEN = "CartPole-v1", 4, 2, 16
SHAPES = ((NUM_INPUTS, NUM_HIDDEN), (NUM_HIDDEN, NUM_ACTIONS))
NUM_WEIGHTS = sum(rows * columns for rows, columns in SHAPES)
#: Numbers in the table. A change of all weights begins at any of them.
TABLE_SIZE = 100_000
#: How large a change is, and the length of a step.
DEVIATION, RATE = 0.1, 0.1
NUM_TASKS, CHANGES_A_TASK = 4, 10
#: Mean return of some episodes with unchanged weights that ends the search.
GOAL, NUM_EPISODES = 475, 10


def play(weights, seed):
    """Return the sum of the rewards of an episode."""
    first, second = np.split(weights, [SHAPES[0][0] * SHAPES[0][1]])
    first, second = first.reshape(SHAPES[0]), second.reshape(SHAPES[1])
    env = gymnasium.make(ENV)
    observation, _ = env.reset(seed=seed)
    total, has_ended = 0.0, False
    while not has_ended:
        action = int((np.tanh(observation @ first) @ second).argmax())
        observation, reward, fell, is_cut, _ = env.step(action)
        total, has_ended = total + reward, fell or is_cut
    return total


@ray.remote
def try_changes(weights, noise, seed):
    """Return the positions of some changes in the table, and the returns with
    each and its opposite.
    """
    random = np.random.default_rng(seed)
    positions = random.integers(TABLE_SIZE - NUM_WEIGHTS, size=CHANGES_A_TASK)
    returns = []
    for position in positions:
        change = DEVIATION * noise[position : position + NUM_WEIGHTS]
        start = int(random.integers(2**31))
        returns.append(
            (play(weights + change, start), play(weights - change, start))
        )
    return positions, np.array(returns)


@ray.remote
def try_weights(weights):
    """Return the mean of some episodes with the weights as they are."""
    return float(np.mean([play(weights, seed) for seed in range(NUM_EPISODES)]))


def ranks(returns):
    """Return -0.5 for the lowest return up to 0.5 for the highest; equal
    returns get equal ranks.
    """
    places = rankdata(returns).reshape(returns.shape) - 1
    return places / (returns.size - 1) - 0.5


def search(max_rounds):
    """Move the weights until they reach the goal; return the number of episodes
    and the mean return.
    """
    random = np.random.default_rng(0)
    noise = random.standard_normal(TABLE_SIZE).astype(np.float32)
    shared_noise = ray.put(noise)
    # Not zeros: of two layers of zeros, a change and its opposite compute the
    # same.
    weights, num_episodes = random.standard_normal(NUM_WEIGHTS) / 2, 0
    for round_ in range(max_rounds + 1):
        shared = ray.put(weights)
        mean = try_weights.remote(shared)
        seeds = range(round_ * NUM_TASKS, (round_ + 1) * NUM_TASKS)
        replies = ray.get(
            [try_changes.remote(shared, shared_noise, seed) for seed in seeds]
        )
        mean = ray.get(mean)
        print(
            f"round {round_:2}: {num_episodes:5,} episodes: mean return "
            f"{mean:5.1f}"
        )
        if mean >= GOAL:
            break
        positions = np.concatenate([positions for positions, _ in replies])
        scores = ranks(np.concatenate([returns for _, returns in replies]))
        num_episodes += scores.size
        # A change counts as much as its return was better than that of its
        # opposite.
        slope = sum(
            (with_change - opposite) * noise[position : position + NUM_WEIGHTS]
            for position, (with_change, opposite) in zip(
                positions, scores, strict=True
            )
        )
        weights = weights + RATE * slope / (
            np.sqrt(slope @ slope / NUM_WEIGHTS) + 1e-8
        )
    return num_episodes, mean


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--max-rounds", type=int, default=100)
    options = parser.parse_args()

    ray.init(num_cpus=2, include_dashboard=False)
    num_episodes, mean = search(options.max_rounds)
    if mean >= GOAL:
        print(f"The goal of {GOAL} is reached after {num_episodes:,} episodes.")
    else:
        print(f"The goal of {GOAL} is not reached.")
    ray.shutdown()


if __name__ == "__main__":
    main()
