"""A client plays, and sends its episodes over a socket to an env runner, whose algorithm learns."""

from __future__ import annotations

import contextlib
import pickle
import socket
import threading
from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms import PPOConfig
from raycompat.rllib.env.external import env_runner_server_for_external_inference
from raycompat.rllib.env.external.env_runner_server_for_external_inference import (
    EnvRunnerServerForExternalInference,
)
from raycompat.rllib.env.external.rllink import RLlink, get_rllink_message, send_rllink_message
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode

needs_torch = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("keras") is None, reason="PyTorch is not installed"
)


def asked(server, message):
    send_rllink_message(server, message)
    return get_rllink_message(server)


def test_arrays_and_episodes_are_sent_and_read():
    one, other = socket.socketpair()
    episode = SingleAgentEpisode(
        observations=[np.zeros((2, 1), np.float32), np.ones((2, 1), np.float32)],
        observation_space=gymnasium.spaces.Box(0, 1, (2, 1)),
        actions=[np.int64(1)],
        rewards=[0.5],
    )
    message = {"type": "EPISODES", "episodes": [episode.get_state()]}
    with one, other:
        send_rllink_message(one, message)
        kind, found = get_rllink_message(other)
        (state,) = found["episodes"]
        np.testing.assert_array_equal(state["observations"]["data"][1], [[1.0], [1.0]])
        assert (kind, state["actions"]["data"], state["id_"]) == (
            RLlink.EPISODES,
            [1],
            episode.id_,
        )
        for sent in (b"00000001\x01", b"00000002\x91\x01"):  # a number, a list
            one.sendall(sent)
            with pytest.raises(ConnectionError, match="expected the length of a message"):
                get_rllink_message(other)
        one.close()
        with pytest.raises(ConnectionError, match="has closed the connection"):
            get_rllink_message(other)
        with pytest.raises(TypeError, match="cannot be sent: expected numbers"):
            send_rllink_message(other, {"type": "PING", "what": object()})


def play(episode, length, ends):
    """Add steps to an episode, each worth 1; return its state."""
    if not episode.is_reset:
        episode.add_env_reset(np.zeros(2, np.float32))
    for step in range(length):
        episode.add_env_step(
            np.ones(2, np.float32),
            0,
            1.0,
            terminated=ends and step == length - 1,
            extra_model_outputs={
                "action_dist_inputs": np.zeros(2, np.float32),
                "action_logp": np.float32(np.log(0.5)),
            },
        )
    return episode.get_state()


def config():
    from raycompat.rllib.torch_learner import PPOTorchLearner

    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    return (
        PPOConfig()
        .environment(
            observation_space=gymnasium.spaces.Box(-1, 1, (2,)),
            action_space=gymnasium.spaces.Discrete(2),
            env_config={"port": port},
        )
        .env_runners(num_env_runners=0, env_runner_cls=EnvRunnerServerForExternalInference)
        .training(learner_class=PPOTorchLearner, model={"fcnet_hiddens": [4]}, lr=0.1)
        .training(train_batch_size=6, minibatch_size=6, num_epochs=1)
    )


def polls():
    """Yield again and again, for 20 s."""
    for each in range(400):
        yield each
        threading.Event().wait(0.05)


def connected(address):
    for _ in polls():
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(address, timeout=20)
    raise TimeoutError(address)


@needs_torch
def test_an_algorithm_learns_from_what_a_client_plays(monkeypatch, caplog):
    monkeypatch.setattr(env_runner_server_for_external_inference, "_PATIENCE_S", 0.01)
    algorithm = config().build_algo()
    seen = {}

    def be_client():
        address = "localhost", algorithm.config.env_config["port"]
        assert any(f"waits for a client on port {address[1]}" in caplog.text for _ in polls())
        with connected(address) as server:
            assert asked(server, {"type": "PING"}) == (RLlink.PONG, {})
            own = pickle.loads(asked(server, {"type": "GET_CONFIG"})[1]["config"])
            seen["length"] = own.get_rollout_fragment_length()
            module = own.get_rl_module_spec().build()
            seen["before"] = asked(server, {"type": "GET_STATE"})[1]["state"]["rl_module"]
            whole = play(SingleAgentEpisode(), 2, True)
            send_rllink_message(server, {"type": "EPISODES", "episodes": [whole]})
            part = SingleAgentEpisode()
            states = [play(part, 3, False), play(part.cut(), 1, True)]
            found = asked(server, {"type": "EPISODES_AND_GET_STATE", "episodes": states})[1]
            module.set_state(found["state"]["rl_module"])
            seen["after"] = module.get_state()
        with connected(address) as server:  # another client takes its place
            states = [play(SingleAgentEpisode(), 6, True)]
            send_rllink_message(server, {"type": "EPISODES", "episodes": states})

    client = threading.Thread(target=be_client)
    client.start()
    first, second = algorithm.train(), algorithm.train()
    client.join(20)
    algorithm.stop()
    assert seen["length"] == 6
    assert set(seen["before"]) == set(seen["after"])
    assert any((seen["before"][name] != seen["after"][name]).any() for name in seen["after"])
    means = [each["env_runners"]["episode_return_mean"] for each in (first, second)]
    assert means == [3.0, 4.0]  # of the episodes 2, 3 + 1, and then 6


@needs_torch
def test_what_a_client_cannot_do_is_refused():
    with pytest.raises(UnsupportedRayFeatureError, match="Let the client do the work"):
        config().callbacks(on_episode_step=lambda **given: None).build_algo()
