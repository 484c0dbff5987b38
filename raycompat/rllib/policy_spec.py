"""`PolicySpec`: one policy of several; and which policies an algorithm has.

A policy has its spaces from its spec, or else from the agents of the environment that are mapped to it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from raycompat.rllib._types import AgentID, AlgorithmOptions, Env, Space
from raycompat.rllib.env.multi_agent_env import agents_of, call_mapping, is_multi_agent, space_of
from raycompat.rllib.env.multi_agent_episode import MultiAgentEpisode
from raycompat.rllib.env.runner import POLICY_ID
from raycompat.rllib.utils.error import UnsupportedSpaceException


@dataclass
class PolicySpec:
    """One policy of several, for ``config.multi_agent(policies={"name": PolicySpec()})``.

    Parameters
    ----------
    policy_class : type, optional
        A class with the method ``compute_actions``, which does not learn. Default: the policy of the
        algorithm.
    observation_space, action_space : gymnasium.Space, optional
        Default: those of the agents that are mapped to the policy.
    config : dict, optional
        Options in place of the algorithm's, such as ``{"gamma": 0.9}``.

    Notes
    -----
    Ray source: ``ray.rllib.policy.policy.PolicySpec``, 2.60.0. Differs from Ray: `policy_class` is not
    a policy of another algorithm.
    """

    policy_class: type[object] | None = None
    observation_space: Space | None = None
    action_space: Space | None = None
    config: Any = field(default=None)


def specs_of(policies: Mapping[str, object] | Iterable[str] | None) -> dict[str, PolicySpec]:
    """Return the policies of an algorithm in today's form.

    Parameters
    ----------
    policies : dict, list, set, tuple or None
        Names; or specs by name, which may be tuples of policy class, observation space, action space
        and options, the form until 2021.

    Raises
    ------
    ValueError
        When one is something else.
    """
    if not policies:
        return {POLICY_ID: PolicySpec()}
    if isinstance(policies, str):
        raise ValueError(
            f"policies={policies!r}: expected names, such as [{policies!r}], or a dict."
        )
    if not isinstance(policies, Mapping):
        return {str(name): PolicySpec() for name in sorted(policies, key=str)}
    return {str(name): _spec_of(name, spec) for name, spec in policies.items()}


def _spec_of(name: object, spec: object) -> PolicySpec:
    if spec is None:
        return PolicySpec()
    if isinstance(spec, PolicySpec):
        return spec
    if isinstance(spec, tuple | list) and len(spec) == 4:
        return PolicySpec(*spec)
    if isinstance(spec, type):
        return PolicySpec(spec)
    raise ValueError(
        f"policies: {name!r} is {spec!r}: expected a PolicySpec, None, or a tuple of policy class (or "
        "None), observation space, action space and a dict of options."
    )


def default_mapping(agent_id: Hashable, episode: object, **kwargs: object) -> str:
    """Return the policy of all agents, where an algorithm has one."""
    return POLICY_ID


@dataclass(frozen=True)
class AgentSpaces:
    """The spaces of the agents of an environment.

    Parameters
    ----------
    env : MultiAgentEnv
    mapping : callable
        Returns the policy of an agent.
    """

    env: Env
    mapping: Callable[..., str]

    def of_policy(self, name: str, spec: PolicySpec) -> tuple[Space, Space]:
        """Return the observation space and the action space of a policy.

        Raises
        ------
        UnsupportedSpaceException
            When neither the spec nor the environment has them.
        """
        found = []
        for kind in ("observation_space", "action_space"):
            space = getattr(spec, kind)
            if space is None:
                space = self.of_agents(name, kind)
            if space is None:
                raise UnsupportedSpaceException(
                    f"The policy {name!r} has no {kind}: the environment {self.env!r} has none for an "
                    f"agent that policy_mapping_fn maps to it. Set {kind}s of the environment, a dict "
                    f"by agent, and possible_agents; or give PolicySpec({kind}=...)."
                )
            found.append(space)
        convert = getattr(self.env, "connected_space", None)
        if spec.observation_space is not None and convert is not None:
            found[0] = convert(*found)  # a spec has the space before the connectors
        return found[0], found[1]

    def of_agents(self, name: str, kind: str) -> Space | None:
        """Return a space of the agents of a policy; None where the environment does not say.

        Parameters
        ----------
        name : str
        kind : {"observation_space", "action_space"}

        Raises
        ------
        ValueError
            When agents of the policy have different ones.
        """
        spaces = {agent: space_of(self.env, agent, kind) for agent in agents_of(self.env)}
        known: dict[AgentID, Space] = {
            agent: space for agent, space in spaces.items() if space is not None
        }
        if not known:
            of_all: Space | None = getattr(self.env, kind, None)
            return of_all
        first = next(iter(known.values()))
        # A mapping may draw, or wait for agents of later: all agents may have the same space.
        if all(space == first for space in known.values()):
            return first
        own = {
            agent: space
            for agent, space in known.items()
            if call_mapping(self.mapping, agent, MultiAgentEpisode()) == name
        }
        found = next(iter(own.values()), None)
        if any(space != found for space in own.values()):
            raise ValueError(
                f"The agents {list(own)} have different {kind}s, and policy_mapping_fn maps them to "
                f"the policy {name!r}: expected one {kind} for each policy. Map them to different "
                "policies."
            )
        return found


@dataclass(frozen=True)
class KnownSpaces:
    """Where the spaces of policies are looked for, one place after the other.

    Parameters
    ----------
    by_name : dict of tuples
        Observation space and action space by policy; under ``"__env__"``, those of an environment.
    env : gymnasium.Env or MultiAgentEnv, optional
    config : AlgorithmConfig
        Its spaces are those of an algorithm without an environment.
    """

    by_name: Mapping[str, tuple[Space, Space]]
    env: object
    config: AlgorithmOptions

    def completed(self, name: str, spec: PolicySpec) -> PolicySpec:
        """Return a policy with its spaces; what the spec has goes before all else.

        Raises
        ------
        ValueError
            When it has none, or its agents have different ones.
        """
        found = replace(spec)
        for place, kind in enumerate(("observation_space", "action_space")):
            if getattr(spec, kind) is None:
                setattr(found, kind, self._of(name, kind, place))
        return found

    def _of(self, name: str, kind: str, place: int) -> Space:
        env: Any = getattr(self.env, "unwrapped", self.env)
        if name in self.by_name:
            space: Space | None = self.by_name[name][place]
        elif is_multi_agent(env):
            mapping = check_mapping(self.config.policy_mapping_fn)
            space = AgentSpaces(env, mapping).of_agents(name, kind)
        else:
            space = getattr(self.env, f"single_{kind}", getattr(self.env, kind, None))
            if space is None and "__env__" in self.by_name:
                space = self.by_name["__env__"][place]
            if space is None:
                space = getattr(self.config, kind)
        if space is None:
            raise ValueError(
                f"The policy {name!r} has no {kind}: expected env=..., spaces={{{name!r}: "
                f"(observation_space, action_space)}}, or PolicySpec({kind}=...)."
            )
        return space


def check_mapping(mapping: object) -> Callable[..., str]:
    """Return the function that maps agents to policies.

    Raises
    ------
    ValueError
        When it cannot be called.
    """
    if mapping is None:
        return default_mapping
    function = getattr(mapping, "func", mapping)  # of tune.function
    if not callable(function):
        raise ValueError(
            f"policy_mapping_fn={mapping!r}: expected a function of agent and episode that returns the "
            "name of a policy."
        )
    return function


def trained_policies(
    policies_to_train: Iterable[str] | Callable[..., object] | None, names: list[str]
) -> set[str]:
    """Return the names of the policies that learn.

    Parameters
    ----------
    policies_to_train : None, list, set or callable
        None: all. A function takes the name, and for some years also a batch, which is None here.
    names : list of str
        Of the policies that can learn.

    Raises
    ------
    ValueError
        When it names a policy that cannot learn.
    """
    if policies_to_train is None:
        return set(names)
    if callable(policies_to_train):
        return {name for name in names if _trains(policies_to_train, name)}
    wanted = {str(name) for name in policies_to_train}
    unknown = sorted(wanted - set(names))
    if unknown:
        raise ValueError(
            f"policies_to_train: {unknown} are not policies that learn: expected some of "
            f"{sorted(names)}."
        )
    return wanted


def _trains(function: Callable[..., object], name: str) -> bool:
    import inspect

    try:
        inspect.signature(function).bind(name, None)
    except TypeError:
        return bool(function(name))
    return bool(function(name, None))
