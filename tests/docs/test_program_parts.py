"""Parts of the small programs of the guides: pictures, gradients and ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "tutorials"))

import a3c  # noqa: E402
import evolution_strategies  # noqa: E402
import shapes32  # noqa: E402


def test_a_seed_draws_the_same_pictures_again():
    pictures, again, others = (shapes32.draw_shapes(600, seed) for seed in (1, 1, 2))
    assert (pictures.images == again.images).all() and (pictures.labels == again.labels).all()
    assert (pictures.images != others.images).any(axis=(1, 2, 3)).all()


def test_every_picture_has_all_of_its_shape(monkeypatch):
    monkeypatch.setattr(shapes32, "NOISE", 0.0)
    images, labels = shapes32.draw_shapes(600, seed=1)
    assert images.shape == (600, 32, 32, 3) and images.dtype == np.uint8
    assert set(labels) == set(range(10))
    # Shapes are at least a pixel from the edge, so a corner has the colour behind them.
    differs = (abs(images - images[:, :1, :1].astype(int)) > 255 * 0.3 - 2).all(axis=3)
    assert not differs[:, 0].any() and not differs[:, :, 0].any()
    areas = [differs[labels == label].sum(axis=(1, 2)) for label in range(10)]
    assert min(area.min() for area in areas) > 20
    names = dict(zip(shapes32.NAMES, (area.mean() for area in areas), strict=True))
    assert names["half"] < names["disk"] / 1.8
    assert names["frame"] < names["square"] < names["disk"]


@pytest.mark.parametrize("name", ["policy", "critic"])
def test_gradients_of_a3c_are_those_of_small_changes(name):
    random = np.random.default_rng(0)
    weights = {
        key: value + random.normal(size=value.shape) for key, value in a3c.first_weights().items()
    }
    inputs = a3c.with_offset(random.normal(size=(7, 4)))
    hidden, outputs = a3c.forward(weights, name, inputs)
    wanted = random.normal(size=outputs.shape)

    def loss(changed):
        return ((a3c.forward(changed, name, inputs)[1] - wanted) ** 2).sum() / 2

    gradient = a3c.backward(weights, name, inputs, hidden, outputs - wanted)
    for key, slopes in gradient.items():
        direction = random.normal(size=slopes.shape)
        up, down = ({**weights, key: weights[key] + step * direction} for step in (1e-5, -1e-5))
        assert (slopes * direction).sum() == pytest.approx((loss(up) - loss(down)) / 2e-5, rel=1e-6)


def test_a_cut_episode_counts_what_the_critic_expects_after_it():
    weights = a3c.first_weights()
    weights["critic hidden"][:] = 0
    weights["critic hidden"][-1] = 100  # the column of ones: all hidden units are 1
    weights["critic"][:] = 10 / a3c.NUM_HIDDEN  # the critic expects 10 everywhere
    worker = a3c.Worker(0)
    for env in worker.envs:
        env._max_episode_steps = 1  # each step is cut
    _, _, rewards, ends, returns = worker.play(weights)
    assert ends.all()
    assert rewards == pytest.approx(1 + a3c.DISCOUNT * 10)
    assert returns == [1] * ends.size  # the expectation is not a reward


def test_equal_returns_have_equal_ranks():
    ranks = evolution_strategies.ranks(np.array([[5.0, 1.0], [5.0, 9.0]]))
    assert ranks == pytest.approx(np.array([[0, -0.5], [0, 0.5]]))
