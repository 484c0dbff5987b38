"""`EnvRunnerServerForExternalInference`: an env runner whose client plays.

The client, such as a simulator, connects to a port, asks for the config and for weights, and acts by
the network itself. It sends the episodes that it has played; `rllink` describes the messages.
"""

from __future__ import annotations

import logging
import socket
from typing import Any

import cloudpickle
import numpy as np

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import State
from raycompat.rllib.env.env_runner import EnvRunner
from raycompat.rllib.env.external.rllink import RLlink, get_rllink_message, send_rllink_message
from raycompat.rllib.env.runner import POLICY_ID, Columns, EnvRunnerSpec, RunnerState, Sample
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
from raycompat.rllib.results import EndedEpisode

logger = logging.getLogger(__name__)

#: Seconds after which a warning says that no client has connected.
_PATIENCE_S = 10.0
#: What a client gives for each step beside the step itself, by our names.
_OUTPUTS = {"parameters": "action_dist_inputs", "log_probabilities": "action_logp"}


class EnvRunnerServerForExternalInference(EnvRunner):
    """Waits for the episodes of a client, on the port ``env_config["port"]`` plus its number.

    Any process of this machine can connect, get the config and send episodes.

    Parameters
    ----------
    spec, index, is_recreated
        See `EnvRunner`.

    Raises
    ------
    UnsupportedRayFeatureError
        When callbacks are to see the episodes, connectors are to change actions, or the network has a
        memory.

    Notes
    -----
    Ray source: ``EnvRunnerServerForExternalInference`` of ``ray.rllib.env.external``, 2.60.0. Differs:
    it answers messages while the algorithm waits for a sample, not while it learns.
    """

    def __init__(self, spec: EnvRunnerSpec, index: int = 0, is_recreated: bool = False) -> None:
        super().__init__(spec, index, is_recreated)
        refused = {
            "module_to_env_connector": self._connect is not None,
            "Callbacks of episodes, or output,": self._watch is not None,
            "A network with a memory": self._acting.memory is not None,
        }
        for what, is_asked in refused.items():
            if is_asked:
                raise UnsupportedRayFeatureError(
                    f"{what} with a client that plays",
                    "The steps are played in the client",
                    "let the client do the work",
                )
        self._port = int(spec.env_config.get("port", 5555)) + index
        self._server: socket.socket | None = None
        self._client: socket.socket | None = None
        #: Whether the client waits for the weights of the next iteration.
        self._owes_state = False
        self._weights: Any = []
        self._sender: Any = None
        #: Return and length of the episodes of which a part has come.
        self._begun: dict[str, tuple[float, int]] = {}

    def set_state(self, state: RunnerState) -> None:
        """Take the weights, which the client is given."""
        super().set_state(state)
        self._weights = state.weights[POLICY_ID]

    def sample(
        self, num_steps: int, state: RunnerState | None = None, explore: bool = True
    ) -> Sample:
        """Wait until a client has sent so many steps at least; see `EnvRunner.sample`."""
        if state is not None:
            self.set_state(state)
        episodes: list[SingleAgentEpisode] = []
        while sum(map(len, episodes)) < num_steps:
            try:
                episodes += self._received()
            except ConnectionError as error:
                logger.warning("The client is gone (%s); the env runner waits for another.", error)
                self._drop_client()
        return self._sample_of([each for each in episodes if len(each)])

    def _received(self) -> list[SingleAgentEpisode]:
        """Answer the next message; return the episodes in it."""
        client = self._connected()
        if self._owes_state:
            self._owes_state = False
            self._send_state(client)
        kind, message = get_rllink_message(client)
        if kind is RLlink.PING:
            send_rllink_message(client, {"type": RLlink.PONG.name})
        elif kind is RLlink.GET_CONFIG:
            config = cloudpickle.dumps(self.spec.config)
            send_rllink_message(client, {"type": RLlink.SET_CONFIG.name, "config": config})
        elif kind is RLlink.GET_STATE:
            self._send_state(client)
        self._owes_state = kind is RLlink.EPISODES_AND_GET_STATE
        return [_episode(each) for each in message.get("episodes", ())]

    def _connected(self) -> socket.socket:
        if self._server is None:
            self._server = socket.create_server(("localhost", self._port), backlog=1)
        self._server.settimeout(_PATIENCE_S)
        while self._client is None:
            try:
                self._client, _ = self._server.accept()
            except TimeoutError:
                logger.warning(
                    "The env runner waits for a client on port %d: start one, or check its port.",
                    self._port,
                )
                self._server.settimeout(None)  # one warning is enough
        return self._client

    def _send_state(self, client: socket.socket) -> None:
        if self._sender is None:
            spaces = self._envs[0].observation_space, self._envs[0].action_space
            config = self.spec.config
            assert config is not None, "a runner that plays elsewhere has the options"
            self._sender = config.get_rl_module_spec(spaces={POLICY_ID: spaces}).build()
        self._sender.set_state(self._weights)
        state = {"rl_module": self._sender.get_state(), "weights_seq_no": 0}
        send_rllink_message(client, {"type": RLlink.SET_STATE.name, "state": state})

    def _sample_of(self, episodes: list[SingleAgentEpisode]) -> Sample:
        parts, ended = [self._columns(each) for each in episodes], []
        columns = {n: np.concatenate([each[n] for each in parts])[:, None] for n in parts[0]}
        columns["rewards"] = self._clipped(columns["rewards"])
        for each in episodes:
            value, length = self._begun.pop(each.id_, (0.0, 0))
            value, length = value + each.get_return(), length + len(each)
            if each.is_done:
                ended.append(EndedEpisode(value, length))
            else:
                self._begun[each.id_] = value, length
        news = {POLICY_ID: self._acting.filter.take_news()}
        return Sample({POLICY_ID: columns}, len(columns["rewards"]), ended, news)

    def _columns(self, episode: SingleAgentEpisode) -> Columns:
        count, acting = len(episode), self._acting
        seen = acting.observe(episode.observations.values)
        ends = np.arange(count) == count - 1
        found = {
            "observations": seen[:-1],
            "next_observations": seen[1:],
            # A network of the client gives numbers between -1 and 1.
            "actions": acting.decode.learned(episode.actions.values, is_normalized=True),
            "rewards": np.asarray(episode.rewards.values, np.float32),
            "terminateds": ends & episode.is_terminated,
            "truncateds": ends & (not episode.is_terminated),
            "valid": np.ones(count, bool),
        }
        values = acting.policy.values(seen)
        if values is None:
            return found
        found |= {"values": values[:-1], "next_values": values[1:]}
        for ours, theirs in _OUTPUTS.items():
            if theirs not in episode.extra_model_outputs:
                raise ValueError(
                    f"An episode of the client has no {theirs!r}: expected extra_model_outputs "
                    f"with {sorted(_OUTPUTS.values())} in each add_env_step()."
                )
            outputs = episode.extra_model_outputs[theirs].values
            found[ours] = np.asarray(outputs, np.float32)
        return found

    def _drop_client(self) -> None:
        self._owes_state = False
        if self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        """Close the connection and the port."""
        super().close()
        self._drop_client()
        if self._server is not None:
            self._server.close()


def _episode(state: State) -> SingleAgentEpisode:
    """Return an episode of a message, without the steps before it."""

    def own(buffer: dict[str, Any]) -> list[Any]:
        return list(buffer["data"])[buffer["lookback"] :]

    outputs = state["extra_model_outputs"] or {}
    return SingleAgentEpisode(
        state["id_"],
        observations=own(state["observations"]),
        actions=own(state["actions"]),
        rewards=own(state["rewards"]),
        terminated=state["is_terminated"],
        truncated=state["is_truncated"],
        extra_model_outputs={name: own(each) for name, each in outputs.items()},
        t_started=state["t_started"],
        len_lookback_buffer=0,
    )
