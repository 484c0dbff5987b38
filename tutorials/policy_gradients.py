"""Learn a game from its pixels with policy gradients, in numpy: actors play,
the driver learns.

The game: a ball falls and bounces off the walls, and a bat at the bottom has to
be under it. The actors see frames of 12 by 10 pixels only. A network with one
hidden layer gives the probability of a move to the left. Moves of games that
were won become more likely, those of lost games less (Williams 1992,
REINFORCE).

With the package ale-py, ``--env ALE/Pong-v5`` plays the real Pong instead, for
many hours.
"""

import argparse

import numpy as np

import raycompat as ray

HEIGHT, WIDTH, BAT = 12, 10, 3
NUM_ACTORS, GAMES_A_BATCH = 2, 20
NUM_HIDDEN = 64
RATE, DECAY, DISCOUNT = 0.005, 0.99, 0.99
NUM_BATCHES = 400


class Catch:
    """The game. Rewards come at the end: 1 for a ball that was caught, -1 for
    one that was not.
    """

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def reset(self):
        """Begin a game, and return its first frame."""
        self.row, self.column = 0, int(self.random.integers(WIDTH))
        self.direction = int(self.random.choice([-1, 1]))
        self.bat = int(self.random.integers(WIDTH - BAT + 1))
        return self.draw()

    def draw(self):
        """Return the frame: 0 and 1."""
        frame = np.zeros((HEIGHT, WIDTH), np.float32)
        frame[self.row, self.column] = 1
        frame[-1, self.bat : self.bat + BAT] = 1
        return frame.ravel()

    def step(self, goes_left):
        """Make a move; return the frame, the reward and whether the game has
        ended.
        """
        self.bat = min(max(self.bat + (-1 if goes_left else 1), 0), WIDTH - BAT)
        if not 0 <= self.column + self.direction < WIDTH:
            self.direction = -self.direction
        self.row, self.column = self.row + 1, self.column + self.direction
        has_ended = self.row == HEIGHT - 1
        caught = self.bat <= self.column < self.bat + BAT
        return self.draw(), (1.0 if caught else -1.0) * has_ended, has_ended


class Atari:
    """A game of the Arcade Learning Environment in the same form: smaller,
    without colours.
    """

    def __init__(self, name, seed):
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
        self.env = gymnasium.make(name, obs_type="grayscale", frameskip=4)
        self.seed = seed

    def reset(self):
        """Begin a game, and return its first frame."""
        frame, _ = self.env.reset(seed=self.seed)
        self.seed = None  # the first game alone begins with it
        return self.draw(frame)

    def draw(self, frame):
        """Return every second pixel of the field, 0 for the background."""
        field = frame[35:195:2, ::2]
        return (
            (field != np.bincount(field.ravel()).argmax())
            .astype(np.float32)
            .ravel()
        )

    def step(self, goes_left):
        """Make a move; return the frame, the reward and whether the game has
        ended.
        """
        frame, reward, has_ended, is_cut, _ = self.env.step(
            2 if goes_left else 3
        )
        return self.draw(frame), reward, has_ended or is_cut


def make_game(name, seed):
    """Return the game of this page, or one of Atari's."""
    return Catch(seed) if name == "catch" else Atari(name, seed)


def probability(weights, seen):
    """Return the hidden units and the probability of a move to the left."""
    hidden = np.maximum(0, seen @ weights["hidden"])
    return hidden, 1 / (1 + np.exp(-hidden @ weights["output"]))


def discounted(rewards):
    """Return what each move has earned: the rewards after it, less the later
    they came.
    """
    earned, total = np.zeros(len(rewards)), 0.0
    for step in reversed(range(len(rewards))):
        total = total * DISCOUNT * (rewards[step] == 0) + rewards[step]
        earned[step] = total
    return earned


class Player:
    """Plays games, and computes the gradient on them."""

    def __init__(self, name, seed):
        self.game = make_game(name, seed)
        self.random = np.random.default_rng(seed)

    def play(self, weights, num_games):
        """Return the gradient on some games, and their rewards."""
        seen, hidden, errors, earned, rewards_of_games = [], [], [], [], []
        for _ in range(num_games):
            rewards, before, has_ended = [], 0.0, False
            frame = self.game.reset()
            while not has_ended:
                # Where the ball is and goes.
                seen.append(np.concatenate([frame, frame - before]))
                units, left = probability(weights, seen[-1])
                goes_left = self.random.random() < left
                hidden.append(units)
                # Of the logarithm of what was done.
                errors.append(goes_left - left)
                before = frame
                frame, reward, has_ended = self.game.step(goes_left)
                rewards.append(reward)
            earned.append(discounted(rewards))
            rewards_of_games.append(sum(rewards))
        seen, hidden = np.array(seen), np.array(hidden)
        earned = np.concatenate(earned)
        # Better than usual is good: else, while most games are lost, every move
        # would be bad.
        push = (
            np.array(errors) * (earned - earned.mean()) / (earned.std() + 1e-8)
        )
        below = np.outer(push, weights["output"]) * (hidden > 0)
        return {
            "hidden": seen.T @ below,
            "output": hidden.T @ push,
        }, rewards_of_games


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--env", default="catch")
    parser.add_argument("--batches", type=int, default=NUM_BATCHES)
    options = parser.parse_args()

    ray.init(num_cpus=NUM_ACTORS, include_dashboard=False)
    remote_player = ray.remote(Player)
    players = [
        remote_player.remote(options.env, seed) for seed in range(NUM_ACTORS)
    ]
    random = np.random.default_rng(0)
    size = 2 * len(make_game(options.env, 0).reset())
    weights = {
        "hidden": random.standard_normal((size, NUM_HIDDEN)) / np.sqrt(size),
        "output": random.standard_normal(NUM_HIDDEN) / np.sqrt(NUM_HIDDEN),
    }
    squares = {name: np.zeros_like(value) for name, value in weights.items()}
    last = []
    for batch in range(1, options.batches + 1):
        shared = ray.put(weights)
        games = GAMES_A_BATCH // NUM_ACTORS
        results = ray.get(
            [player.play.remote(shared, games) for player in players]
        )
        for name, square in squares.items():  # RMSprop
            gradient = sum(gradients[name] for gradients, _ in results)
            squares[name] = DECAY * square + (1 - DECAY) * gradient**2
            weights[name] = weights[name] + RATE * gradient / (
                np.sqrt(squares[name]) + 1e-5
            )
        last = (
            last + [reward for _, rewards in results for reward in rewards]
        )[-200:]
        if batch % 50 == 0:
            print(
                f"{batch * GAMES_A_BATCH:5,} games: mean reward of the last "
                f"200: {np.mean(last):5.2f}"
            )
    ray.shutdown()


if __name__ == "__main__":
    main()
