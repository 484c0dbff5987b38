"""A3C in numpy: workers play and compute gradients, the driver applies each one
as it comes.

Each worker plays CartPole in several environments with the weights that it was
sent, and returns the gradient of a policy and of a critic. The first gradient
that is ready makes a step, and its worker gets the new weights at once. So a
slow worker does not delay others, but a gradient may be of weights some steps
old (Mnih et al. 2016, arXiv:1602.01783).
"""

import argparse

import gymnasium
import numpy as np

import raycompat as ray

ENV, NUM_INPUTS, NUM_ACTIONS = "CartPole-v1", 4, 2
NUM_WORKERS, NUM_ENVS = 2, 8
#: Steps in each environment for one gradient.
NUM_STEPS = 32
NUM_HIDDEN = 64
#: Learning rate, decays of Adam's two means, and how much rewards and errors
#: count a step earlier.
RATE, DECAYS, DISCOUNT, TRACE = 0.005, (0.9, 0.999), 0.99, 0.95
#: Mean return of the last 100 episodes that ends the training.
GOAL = 450


def first_weights():
    """Return the weights of two networks with one hidden layer: the policy and
    the critic.
    """
    random = np.random.default_rng(0)
    weights = {}
    for name, num_outputs in (("policy", NUM_ACTIONS), ("critic", 1)):
        hidden = random.standard_normal((NUM_INPUTS + 1, NUM_HIDDEN))
        weights[f"{name} hidden"] = hidden / np.sqrt(NUM_INPUTS + 1)
        weights[name] = np.zeros((NUM_HIDDEN, num_outputs))
    return weights


def forward(weights, name, inputs):
    """Return the hidden units and the outputs of one of the two networks."""
    hidden = np.tanh(inputs @ weights[f"{name} hidden"])
    return hidden, hidden @ weights[name]


def backward(weights, name, inputs, hidden, errors):
    """Return the gradient, given that of the outputs."""
    below = errors @ weights[name].T * (1 - hidden**2)
    return {f"{name} hidden": inputs.T @ below, name: hidden.T @ errors}


def with_offset(observations):
    """Return observations with a column of ones, for the offsets."""
    return np.hstack([observations, np.ones((len(observations), 1))])


class Worker:
    """Plays in some environments, each from where the last call left it."""

    def __init__(self, number):
        self.random = np.random.default_rng(number)
        self.envs = [gymnasium.make(ENV) for _ in range(NUM_ENVS)]
        seeds = range(number * NUM_ENVS, (number + 1) * NUM_ENVS)
        firsts = [
            env.reset(seed=seed)[0]
            for env, seed in zip(self.envs, seeds, strict=True)
        ]
        self.inputs = with_offset(np.array(firsts))
        self.returns = np.zeros(NUM_ENVS)

    def play(self, weights):
        """Return for some steps: inputs, actions, rewards, ends, and the
        returns of ended episodes.
        """
        inputs, actions = [], []
        rewards, ends = np.zeros((2, NUM_STEPS, NUM_ENVS))
        returns = []
        for step in range(NUM_STEPS):
            inputs.append(self.inputs)
            _, scores = forward(weights, "policy", self.inputs)
            # Softmax of two scores.
            right = 1 / (1 + np.exp(scores[:, 0] - scores[:, 1]))
            actions.append((self.random.random(NUM_ENVS) < right).astype(int))
            observations = []
            for number, env in enumerate(self.envs):
                observation, reward, fell, is_cut, _ = env.step(
                    int(actions[-1][number])
                )
                self.returns[number] += reward
                if fell or is_cut:
                    ends[step, number] = 1
                    returns.append(self.returns[number])
                    self.returns[number] = 0
                    # The limit of time ended it: what would have come counts
                    # as the critic sees it.
                    if is_cut:
                        _, value = forward(
                            weights, "critic", with_offset(observation[None])
                        )
                        reward += DISCOUNT * value.item()
                    observation, _ = env.reset()
                rewards[step, number] = reward
                observations.append(observation)
            self.inputs = with_offset(np.array(observations))
        return np.array(inputs), np.array(actions), rewards, ends, returns

    def compute_gradient(self, weights):
        """Play, and return the gradient and the returns of the episodes that
        ended.
        """
        inputs, actions, rewards, ends, returns = self.play(weights)
        everything = np.concatenate([*inputs, self.inputs])
        units, values = forward(weights, "critic", everything)
        values = values.reshape(NUM_STEPS + 1, NUM_ENVS)
        # How much better each action was than the critic expected, from the
        # last step to the first.
        advantages, later = np.zeros_like(rewards), np.zeros(NUM_ENVS)
        for step in reversed(range(NUM_STEPS)):
            goes_on = 1 - ends[step]
            error = (
                rewards[step]
                + DISCOUNT * values[step + 1] * goes_on
                - values[step]
            )
            advantages[step] = later = (
                error + DISCOUNT * TRACE * later * goes_on
            )

        seen, advantages = np.concatenate(inputs), advantages.ravel()
        gradient = backward(
            weights,
            "critic",
            seen,
            units[:-NUM_ENVS],
            -advantages[:, None] / len(seen),
        )
        hidden, scores = forward(weights, "policy", seen)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        wanted = np.eye(NUM_ACTIONS)[actions.ravel()]
        push = (advantages / (advantages.std() + 1e-8))[:, None]
        gradient |= backward(
            weights,
            "policy",
            seen,
            hidden,
            (shares - wanted) * push / len(seen),
        )
        return gradient, returns


class Adam:
    """Takes steps against gradients (Kingma and Ba 2015)."""

    def __init__(self, weights):
        self.weights = weights
        self.means = {
            name: np.zeros_like(value) for name, value in weights.items()
        }
        self.squares = {
            name: np.zeros_like(value) for name, value in weights.items()
        }
        self.num_steps = 0

    def step(self, gradient):
        """Take a step. The weights are new arrays, because workers may still
        read the old ones.
        """
        self.num_steps += 1
        small, large = (1 - decay**self.num_steps for decay in DECAYS)
        for name, slope in gradient.items():
            self.means[name] += (1 - DECAYS[0]) * (slope - self.means[name])
            self.squares[name] += (1 - DECAYS[1]) * (
                slope**2 - self.squares[name]
            )
            move = (
                self.means[name]
                / small
                / (np.sqrt(self.squares[name] / large) + 1e-8)
            )
            self.weights[name] = self.weights[name] - RATE * move


def train(workers, max_steps):
    """Apply gradients as they come; return the number of steps and the mean
    return at the end.
    """
    adam = Adam(first_weights())
    shared = ray.put(adam.weights)
    pending = {
        worker.compute_gradient.remote(shared): worker for worker in workers
    }
    num_steps, last, mean = 0, [], 0.0
    while num_steps < max_steps and mean < GOAL:
        (ready,), _ = ray.wait(list(pending))
        worker = pending.pop(ready)
        gradient, returns = ray.get(ready)
        adam.step(gradient)
        pending[worker.compute_gradient.remote(ray.put(adam.weights))] = worker
        last = (last + returns)[-100:]
        mean = np.mean(last) if len(last) == 100 else 0.0
        num_steps += NUM_STEPS * NUM_ENVS
        if adam.num_steps % 50 == 0:
            print(
                f"{num_steps:7,} steps: mean return of the last 100 episodes: "
                f"{mean:5.1f}"
            )
    return num_steps, mean


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--max-steps", type=int, default=1_000_000)
    options = parser.parse_args()

    ray.init(num_cpus=NUM_WORKERS, include_dashboard=False)
    remote_worker = ray.remote(Worker)
    workers = [remote_worker.remote(number) for number in range(NUM_WORKERS)]
    num_steps, mean = train(workers, options.max_steps)
    if mean >= GOAL:
        print(f"The goal of {GOAL} is reached after {num_steps:,} steps.")
    else:
        print(f"The goal of {GOAL} is not reached.")
    ray.shutdown()


if __name__ == "__main__":
    main()
