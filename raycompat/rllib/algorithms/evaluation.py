"""`Evaluation`: how an algorithm plays without learning, in its own environments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Metrics, Options
from raycompat.rllib.acting import PolicyPlan
from raycompat.rllib.algorithms.old_keys import with_new_names
from raycompat.rllib.env.construction import make_env
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.env.env_runner import EnvRunner
from raycompat.rllib.env.env_runner_group import GroupOptions, RunnerGroup, num_affordable
from raycompat.rllib.env.episode import describe_records
from raycompat.rllib.env.multi_agent_env import is_multi_agent
from raycompat.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from raycompat.rllib.env.runner import RunnerState
from raycompat.rllib.metrics_logger import LoggedMetrics
from raycompat.rllib.policy_spec import AgentSpaces, PolicySpec, check_mapping, specs_of
from raycompat.rllib.results import EndedEpisode, describe, describe_agents

#: Runners of evaluations have other random numbers than those of training.
_SEED_OF_EVALUATION = 100_000

#: The option that says of how many episodes means are.
_NEWEST = "metrics_num_episodes_for_smoothing"

#: The options that an evaluation may have in place of those of training.
_KNOWN = {"env", "env_config", "explore", "input_", "policies", "policy_mapping_fn", _NEWEST}


def newest_of(answers: Sequence[Sequence[EndedEpisode]], count: int) -> list[EndedEpisode]:
    """Return the episodes that ended last, the newest one last; runners play side by side.

    Parameters
    ----------
    answers : sequence of sequences of EndedEpisode
        Those of each runner, in the order of their ends.
    count : int
        The most episodes to return.
    """
    rows = zip_longest(*(reversed(each) for each in answers))
    return [episode for row in rows for episode in row if episode is not None][:count][::-1]


class Evaluation:
    """The evaluations of an algorithm.

    Parameters
    ----------
    algorithm : Algorithm

    Attributes
    ----------
    group : RunnerGroup or None
        The runners; the first evaluation makes them.
    """

    def __init__(self, algorithm: Any) -> None:
        self._algorithm, self._config = algorithm, algorithm.config
        self.group: RunnerGroup | None = None

    def run(self) -> Metrics:
        """Play, and return the figures of the episodes that ended; see `Algorithm.evaluate`."""
        settings = self._config
        self._algorithm.call_hooks("on_evaluate_start")
        changes = dict(settings.evaluation_config or {})
        if self.group is None:
            self.group = self._make_group(changes)
        group = self.group
        state = self._algorithm.runner_state()
        state.epsilon = 0.0
        if settings.custom_evaluation_function is not None:
            made = self._by_program(group, state)
            self._algorithm.call_hooks("on_evaluate_end", evaluation_metrics=made)
            return made
        each = math.ceil(settings.evaluation_duration / len(group))
        by_steps = settings.evaluation_duration_unit == "timesteps"
        explores = bool(changes.get("explore"))
        answers = group.call_all("play_episodes", each, state, explores, by_steps)
        episodes = [episode for answer in answers for episode in answer]
        newest = newest_of(answers, with_new_names(changes).get(_NEWEST, len(episodes)))
        steps = each * len(group) if by_steps else sum(episode.length for episode in episodes)
        found: Metrics = {
            "env_runners": {
                **describe(newest),
                **describe_agents(newest),
                "num_episodes": len(episodes),
                "num_env_steps_sampled": steps,
            },
            "timesteps_this_iter": steps,  # its name until 2024
        }
        if settings.watches_episodes():
            found |= self._left_in(group)
        self._algorithm.call_hooks("on_evaluate_end", evaluation_metrics=found)
        return found

    def _by_program(self, group: RunnerGroup, state: RunnerState) -> Metrics:
        """Return what ``custom_evaluation_function`` makes of an evaluation."""
        function = self._config.custom_evaluation_function
        group.state_of = lambda: state
        group.sync_weights()
        found = function(self._algorithm, group)
        if isinstance(found, tuple):  # with the numbers of steps
            found = found[0]
        if not isinstance(found, Mapping):
            raise ValueError(
                f"custom_evaluation_function={function!r} returned {found!r}: expected a dict of "
                "metrics, such as summarize_episodes() returns."
            )
        return {"env_runners": dict(found), **found}

    def _left_in(self, group: RunnerGroup) -> Metrics:
        """Return what callbacks have left in the runners of an evaluation."""
        left = [each for each in group.call_all("take_left") if each is not None]
        records = [record for each in left for record in each.records]
        logged = LoggedMetrics()
        logged.add(value for each in left for value in each.logged)
        described = describe_records(records, self._config.keep_per_episode_custom_metrics)
        return {**logged.described(), **described}

    def _make_group(self, changes: Options) -> RunnerGroup:
        changes = with_new_names(changes)
        if changes.get("input_") not in (None, "sampler"):
            raise UnsupportedRayFeatureError(
                f"evaluation_config={{'input_': {changes['input_']!r}}}",
                "An evaluation plays in an environment, and does not read recorded steps",
                "leave 'input_' out of evaluation_config, or set it to 'sampler'",
            )
        same = {k for k, v in changes.items() if k != "explore" and self._config.get(k) == v}
        unknown = sorted(set(changes) - same - _KNOWN)
        if unknown:
            raise ValueError(
                f"evaluation_config: {unknown}: expected some of {', '.join(sorted(_KNOWN))}."
            )
        newest = changes.get(_NEWEST, 1)
        if isinstance(newest, bool) or not isinstance(newest, int) or newest < 1:
            raise ValueError(
                f"evaluation_config={{{_NEWEST!r}: {newest!r}}}: expected an integer of 1 or more, or "
                "leave it out to count all episodes."
            )
        count = self._num_runners()
        spec = self._algorithm.runner_spec(count, 1)
        if changes.get("env") is not None:
            create = self._algorithm.creator_of_env(changes["env"])
            spec = replace(spec, create=create, described=changes["env"])
        spec.env_config.update(changes.get("env_config", {}))
        mapping = check_mapping(changes.get("policy_mapping_fn") or self._config.policy_mapping_fn)
        probe = make_env(spec.create, EnvContext(spec.env_config, 0), spec.described)
        try:
            has_agents = is_multi_agent(probe)
            policies = self._policies_in(AgentSpaces(probe, mapping), changes.get("policies"))
        finally:
            close = getattr(probe, "close", None)
            if close is not None:
                close()
        if not has_agents and len(policies) != 1:
            raise ValueError(
                f"evaluation_config: the environment {spec.described!r} has one agent, and the "
                f"policies are {sorted(policies)}: expected one policy, or a MultiAgentEnv."
            )
        spec = replace(spec, policies=policies, policy_mapping_fn=mapping)
        spec.for_programs.update(is_evaluation=True, explores=bool(changes.get("explore")))
        spec = replace(spec, seed=spec.seed + _SEED_OF_EVALUATION)
        make = partial(MultiAgentEnvRunner if has_agents else EnvRunner, spec)
        return RunnerGroup(make, count, GroupOptions(num_cpus=self._cpus_of_evaluation(count)))

    def _policies_in(
        self, spaces: AgentSpaces, given: Mapping[str, object] | Iterable[str] | None
    ) -> dict[str, PolicyPlan]:
        """Return the policies of an evaluation: those of training, and rules of a user."""
        plans, own = self._algorithm.plans, specs_of(self._config.policies)
        if not given:
            return dict(plans)
        found = {}
        for name, spec in specs_of(given).items():
            rule = None if name in plans else self._config.of_policy(name, spec)[1]
            if rule is not None:
                found[name] = PolicyPlan(
                    rule.cls, None, *spaces.of_policy(name, spec), options=rule.options
                )
            elif name in plans and spec in (PolicySpec(), own[name]):
                found[name] = plans[name]
            else:
                raise ValueError(
                    f"evaluation_config={{'policies': {{{name!r}: {spec!r}}}}}: expected the policies "
                    f"{sorted(plans)} without changes, or a policy_class with compute_actions()."
                )
        return found

    def _num_runners(self) -> int:
        """Return how many runners of evaluations there is room for beside those of training."""
        wanted, cpus = self._config.evaluation_num_env_runners, self._config.num_cpus_per_env_runner
        if not wanted:
            return 0
        if self._config.custom_evaluation_function is not None:
            return int(wanted)  # which the program's function may count on
        return num_affordable(wanted, self._cpus_left(), cpus, least=0)

    def _cpus_left(self) -> float:
        """Return how many CPUs the runners of training leave."""
        group, cpus = self._algorithm.env_runner_group, self._config.num_cpus_per_env_runner
        return float(self._algorithm.num_cpus_of_runners() - len(group) * group.is_remote * cpus)

    def _cpus_of_evaluation(self, count: int) -> float:
        """Return how many CPUs each runner of an evaluation asks for: none where there is no room."""
        wanted = self._config.num_cpus_per_env_runner
        if not count or self._config.custom_evaluation_function is None:
            return float(wanted)
        return float(wanted) if count * wanted <= self._cpus_left() else 0.0
