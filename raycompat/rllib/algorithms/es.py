"""Evolution strategies: search in the space of parameters, without gradients of the network.

Salimans et al., "Evolution strategies as a scalable alternative to reinforcement learning"
(arXiv 1703.03864). In each iteration:

1. Each runner draws vectors from the shared table of noise, and plays one episode with the vector added
   to the parameters and one with it subtracted (`EvolutionRunner.try_pairs`). Only indices and returns
   travel back.
2. The ranks of the returns weigh the vectors (`ascent_direction`), and Adam takes a step in that
   direction, with weight decay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

import raycompat as ray
from raycompat._surface.modules import names_of
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Array, Metrics, State
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.env.env_runner import EnvRunner
from raycompat.rllib.env.env_runner_group import GroupOptions, RunnerGroup
from raycompat.rllib.env.episode_watch import LeftByCallbacks
from raycompat.rllib.env.runner import POLICY_ID, EnvRunnerSpec, RunnerState, Sample
from raycompat.rllib.evolution import ascent_direction, make_noise, noise_size
from raycompat.rllib.filters import RunningStatistics
from raycompat.rllib.networks import NetworkSpec, Weights, initial_weights
from raycompat.rllib.policy_learner import PolicyLearner, PolicySetup
from raycompat.rllib.results import EndedEpisode
from raycompat.rllib.utils.error import UnsupportedSpaceException


class ESConfig(AlgorithmConfig):
    """Options of evolution strategies.

    ``training`` takes, beside those of all algorithms: ``episodes_per_batch`` (int, default 1000: at
    least so many episodes in an iteration), ``train_batch_size_per_learner`` (int, default 10000: at
    least so many steps), ``noise_stdev`` (float, default 0.02), ``stepsize`` (float, default 0.01),
    ``l2_coeff`` (float, default 0.005), ``eval_prob`` (float, 0 to 1, default 0.003: the chance of an
    episode without noise, whose return counts in results alone), ``noise_size`` (int: the most numbers
    in the table of noise; by default what the network needs).

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.es.ESConfig``, 2.7.2; Ray has removed it since. Differs from Ray:
    the table of noise is as large as the network needs, not 1 GB; without episodes free of noise in an
    iteration, results are of all episodes, not NaN.
    """

    algo_class: type[ES]
    TRAINING: ClassVar = {
        "train_batch_size_per_learner": 10_000,
        "episodes_per_batch": 1000,
        "noise_stdev": 0.02,
        "stepsize": 0.01,
        "l2_coeff": 0.005,
        "eval_prob": 0.003,
        "noise_size": None,
    }

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or ES)
        self.num_env_runners = 10
        self.observation_filter = "MeanStdFilter"


@dataclass
class Trials:
    """Results of the pairs that a runner has tried.

    Parameters
    ----------
    indices : list of int
        Where each pair's vector begins in the table.
    pairs : list of (EndedEpisode, EndedEpisode)
        With the vector added, and with it subtracted.
    plain : list of EndedEpisode
        Without noise.
    news : RunningStatistics or None
        What the filter has counted.
    left : LeftByCallbacks or None
        What callbacks have left in the runner.
    """

    indices: list[int] = field(default_factory=list)
    pairs: list[tuple[EndedEpisode, EndedEpisode]] = field(default_factory=list)
    plain: list[EndedEpisode] = field(default_factory=list)
    news: RunningStatistics | None = None
    left: LeftByCallbacks | None = None

    @property
    def episodes(self) -> list[EndedEpisode]:
        """All episodes."""
        return [episode for pair in self.pairs for episode in pair] + self.plain


class EvolutionRunner(EnvRunner):
    """An env runner that plays episodes with noise added to the parameters.

    Parameters
    ----------
    noise : array of float32
        The table that all runners have.
    """

    def __init__(
        self, noise: Any, spec: EnvRunnerSpec, index: int = 0, is_recreated: bool = False
    ) -> None:
        super().__init__(spec, index, is_recreated)
        self._noise: Array = ray.get(noise) if isinstance(noise, ray.ObjectRef) else noise
        self._reset_all(self._seeds())

    def try_pairs(
        self, state: RunnerState, num_pairs: int, stdev: float, eval_prob: float
    ) -> Trials:
        """Play pairs of episodes, and by chance some without noise."""
        self.set_state(state)
        weights = state.weights[POLICY_ID]
        center = flattened(weights)
        found = Trials()
        for _ in range(num_pairs):
            if self._rng.random() < eval_prob:
                found.plain.append(self._play(weights))
            index = int(self._rng.integers(len(self._noise) - len(center) + 1))
            vector = stdev * self._noise[index : index + len(center)]
            shapes = [weight.shape for weight in weights]
            better = self._play(unflattened(center + vector, shapes))
            worse = self._play(unflattened(center - vector, shapes))
            found.indices.append(index)
            found.pairs.append((better, worse))
        found.news = self._acting.filter.take_news()
        found.left = self.take_left()
        return found

    def _play(self, weights: Weights) -> EndedEpisode:
        """Play one episode of the first environment to its end."""
        self._acting.policy.set_weights(weights)
        self._returns[0], self._lengths[0] = 0, 0
        ended: dict[int, EndedEpisode] = {}
        while not ended:
            observations = self._acting.observe(self._raw)
            _, _, for_env = self._act(observations, explore=False)
            self._step(for_env, [], ended)
        return ended[0]


def flattened(weights: Weights) -> Array:
    """Return all numbers of a network in one vector."""
    return np.concatenate([weight.ravel() for weight in weights])


def unflattened(vector: Array, shapes: list[tuple[int, ...]]) -> Weights:
    """Return a vector as the arrays of a network; they are views of it."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = np.split(vector, ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


class AdamStep:
    """Adam for one vector, in numpy.

    Parameters
    ----------
    size : int

    Notes
    -----
    Kingma and Ba (arXiv 1412.6980), algorithm 1.
    """

    def __init__(self, size: int) -> None:
        self.mean: Array = np.zeros(size, np.float32)
        self.square: Array = np.zeros(size, np.float32)
        self.count = 0

    def __call__(self, gradient: Array, rate: float) -> Array:
        """Return what to subtract from the parameters."""
        self.count += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        scale = rate * math.sqrt(1 - 0.999**self.count) / (1 - 0.9**self.count)
        step: Array = scale * self.mean / (np.sqrt(self.square) + 1e-8)
        return step


class ESLearner(PolicyLearner):
    """The parameters of a policy, and what Adam remembers.

    Parameters
    ----------
    setup : PolicySetup
    network : NetworkSpec
    seed : int
    """

    def __init__(self, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        super().__init__(setup, network, seed)
        self._weights = initial_weights(network, seed)
        self.adam = AdamStep(len(flattened(self._weights)))

    @classmethod
    def network_of(cls, setup: PolicySetup) -> NetworkSpec:
        """Return a policy alone."""
        hiddens = tuple(setup.config.model["fcnet_hiddens"])
        setup.refuse_memory("ES")
        spec = NetworkSpec(heads=(setup.policy_head(),), trunk=hiddens, **setup.body_options())
        if not spec.is_dense:
            raise UnsupportedSpaceException(
                f"ES cannot play from {setup.observation_space!r}: its networks are dense. "
                "PPO and DQN take images."
            )
        return spec

    def get_weights(self) -> Weights:
        """Return the parameters."""
        return self._weights

    def set_weights(self, weights: Weights) -> None:
        """Replace the parameters."""
        shapes = [each.shape for each in self._weights]
        if [each.shape for each in weights] != shapes:
            raise ValueError(f"the shapes are {[w.shape for w in weights]}, not {shapes}")
        self._weights = list(weights)

    def get_state(self) -> State:
        """Return the parameters and what Adam remembers."""
        return {"weights": self._weights, "adam": self.adam}

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned."""
        self.set_weights(state["weights"])
        self.adam = state["adam"]


class ES(Algorithm):
    """Evolution strategies; see `Algorithm`.

    Parameters
    ----------
    config : ESConfig or dict, optional
    env : str, class or callable, optional
    logger_creator : optional
        Has no effect.
    """

    config_class = ESConfig
    learner_class = ESLearner
    learns_from_samples: ClassVar[bool] = False
    runner_class = EvolutionRunner

    def _check_agents(self) -> None:
        if self.is_multi_agent:
            raise UnsupportedRayFeatureError(
                f"ES for {self.config.env!r}, an environment of several agents,",
                "Noise is added to the parameters of one policy",
                "use PPO, DQN, A2C or A3C",
            )

    def _make_group(self, num_runners: int, num_envs: int) -> RunnerGroup:
        network = self._plans[POLICY_ID].network
        assert network is not None
        size = noise_size(network.num_parameters, self.config.noise_size)
        self._noise = make_noise(size, self._seed)
        noise = ray.put(self._noise) if num_runners else self._noise
        spec = self.runner_spec(num_runners, 1)
        make = partial(EvolutionRunner, noise, spec)
        group = RunnerGroup(make, num_runners, GroupOptions.of(self.config))
        group.state_of = self.runner_state
        return group

    def training_step(self) -> dict[str, Metrics]:
        """Try pairs of episodes, and take one step."""
        settings = self.config
        found = self._try_enough()
        returns = np.array([[better.value, worse.value] for better, worse in found.pairs])
        learner = self.learners[POLICY_ID]
        weights = learner.get_weights()
        center = flattened(weights)
        ascent = ascent_direction(self._noise, np.array(found.indices), returns, len(center))
        with self._timed("learner_update_timer"):
            step = learner.adam(settings.l2_coeff * center - ascent, settings.stepsize)
            learner.set_weights(unflattened(center - step, [each.shape for each in weights]))
        statistics = {
            "weights_norm": float(np.square(center).sum()),
            "grad_norm": float(np.square(ascent).sum()),
            "update_ratio": float(np.linalg.norm(step)) / max(1e-12, float(np.linalg.norm(center))),
            "episodes_this_iter": len(found.episodes),
            "episodes_so_far": self._episodes.num_episodes,
        }
        return {POLICY_ID: statistics}

    def _try_enough(self) -> Trials:
        """Let the runners play until there are enough episodes and steps."""
        settings, group = self.config, self.env_runner_group
        found = Trials()
        num_steps = 0
        wanted = math.ceil(settings.episodes_per_batch / 2)
        while len(found.pairs) < wanted or num_steps < settings.train_batch_size_per_learner:
            left = max(wanted - len(found.pairs), len(group))
            state = self.runner_state()
            given = ray.put(state) if group.is_remote else state
            arguments = math.ceil(left / len(group)), settings.noise_stdev, settings.eval_prob
            with self._timed("env_runner_sampling_timer"):
                answers: list[Trials] = group.call_all("try_pairs", given, *arguments)
            for each in answers:
                found.indices += each.indices
                found.pairs += each.pairs
                found.plain += each.plain
                num_steps += sum(episode.length for episode in each.episodes)
                self._count(each)
        return found

    def _count(self, trials: Trials) -> None:
        episodes = trials.plain or trials.episodes
        steps = sum(episode.length for episode in trials.episodes)
        self.count(Sample({}, steps, episodes, {POLICY_ID: trials.news}, trials.left))


#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
