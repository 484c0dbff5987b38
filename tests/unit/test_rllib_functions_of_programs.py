"""Small functions and names that RLlib's programs import; values were worked out by hand."""

from __future__ import annotations

import importlib
import random
from collections import namedtuple
from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms.ppo import PPOConfig
from raycompat.rllib.core.rl_module.default_model_config import DefaultModelConfig
from raycompat.rllib.metrics_logger import LoggedMetrics, MetricsLogger

CHOICES = gymnasium.spaces.MultiDiscrete([2, 3])


def of_ray(name):
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(f"raycompat.rllib.{module}"), last)


def tensors_of(framework):
    """Return a function that makes tensors, and the module with the functions of them."""
    if framework == "torch":
        torch = pytest.importorskip("torch")
        return torch.tensor, "utils.torch_utils"
    return pytest.importorskip("tensorflow").constant, "utils.tf_utils"


@pytest.mark.parametrize("framework", ["torch", "tf"])
def test_functions_of_tensors(framework):
    tensor, module = tensors_of(framework)

    def call(name, *given):
        return np.asarray(of_ray(f"{module}.{name}")(*given)).tolist()

    y, guess = tensor([1.0, 2.0, 3.0]), tensor([1.0, 2.0, 2.5])
    assert call("explained_variance", y, y) == pytest.approx(1.0)
    assert call("explained_variance", y, guess) == pytest.approx(11 / 12, abs=1e-5)
    assert call("explained_variance", y, -9 * y) == -1
    assert call("huber_loss", tensor([0.5, -3.0])) == [0.125, 2.5]
    assert call("l2_loss", tensor([3.0, 4.0])) == 12.5
    assert call("one_hot", tensor([1, 0]), gymnasium.spaces.Discrete(2)) == [[0, 1], [1, 0]]
    assert call("one_hot", tensor([[1, 2]]), CHOICES) == [[0, 1, 0, 0, 1]]
    assert call("reduce_mean_ignore_inf", tensor([1.0, float("inf"), 3.0])) == 2
    with pytest.raises(ValueError, match="expected a Discrete or MultiDiscrete"):
        call("one_hot", tensor([1]), gymnasium.spaces.Box(0, 1))


def test_arrays_become_tensors_and_tensors_arrays():
    torch = pytest.importorskip("torch")
    to_tensor = of_ray("utils.torch_utils.convert_to_torch_tensor")
    to_array = of_ray("utils.numpy.convert_to_numpy")
    given = {"a": np.arange(2.0), "b": (np.array([1]), None), "c": np.array(["x"])}
    found = to_tensor(given)
    assert found["a"].dtype == torch.float32
    assert found["b"][0].tolist() == [1]
    assert found["b"][1] is None
    assert found["c"] is not None
    assert not torch.is_tensor(found["c"])
    back = to_array(found)
    assert back["a"].dtype == np.float32
    assert back["b"][0].dtype == np.int32
    assert to_array(torch.tensor(3)) == 3
    assert to_array(np.arange(2.0), reduce_type=False).dtype == np.float64
    assert to_array([1, "a", None]) == [1, "a", None]


def test_tensors_are_copied_in_each_structure():
    torch = pytest.importorskip("torch")
    pair = namedtuple("Pair", "a b")  # noqa: PYI024
    given = {"pair": pair(torch.ones(1), "text"), "list": [torch.ones(1), None, 3]}
    found = of_ray("utils.torch_utils.copy_torch_tensors")(given)
    for tensor in (given["pair"].a, given["list"][0]):
        tensor += 1
    assert found == {"pair": pair(torch.ones(1), "text"), "list": [torch.ones(1), None, 3]}


def test_masks_norms_and_target_networks():
    torch = pytest.importorskip("torch")
    module = importlib.import_module("raycompat.rllib.utils.torch_utils")
    mask = module.sequence_mask(torch.tensor([1, 3]), maxlen=4)
    assert mask.int().tolist() == [[1, 0, 0, 0], [1, 1, 1, 0]]
    assert module.global_norm([torch.tensor([3.0]), None, torch.tensor([4.0])]) == 5
    main, target = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    before = target.weight.item()
    module.update_target_network(main, target, 0.25)
    assert target.weight.item() == pytest.approx(0.75 * before + 0.25 * main.weight.item())
    assert module.FLOAT_MIN < -1e38


def test_images():
    resize, gray = of_ray("utils.images.resize"), of_ray("utils.images.rgb2gray")
    image = np.arange(16, dtype=np.uint8).reshape(4, 4)
    assert resize(image, 2, 2).tolist() == [[2, 4], [10, 12]]  # means of 2.5, 4.5 ...: even numbers
    assert resize(image.astype(float), 2, 1).tolist() == [[3.5], [11.5]]
    assert resize(image, 4, 4).tolist() == image.tolist()
    assert resize(np.ones((3, 5, 3)), 7, 2) == pytest.approx(np.ones((7, 2, 3)))
    assert gray(np.array([[[255, 0, 0], [255, 255, 255]]], np.uint8)).tolist() == [[76, 255]]
    with pytest.raises(ValueError, match="0 pixels: expected 1 or more"):
        resize(image, 0, 2)


def test_paddings_of_convolutions():
    pytest.importorskip("torch")
    same = of_ray("models.torch.misc.same_padding")
    assert same((10, 11), 3, 2) == ((1, 1, 0, 1), (5, 6))
    assert same((84, 84), [8, 8], 4) == ((2, 2, 2, 2), (21, 21))
    assert of_ray("models.torch.misc.valid_padding")((10, 11), 3, 2) == (4, 5)


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_names_of_parts_beside_learners_in_pytorch():
    assert of_ray("core.learner.learner.DEFAULT_OPTIMIZER") == "default_optimizer"


def test_names_of_parts_and_keys_of_results():
    assert of_ray("core.COMPONENT_LEARNER_GROUP") == "learner_group"
    assert of_ray("core.models.base.ENCODER_OUT") == "encoder_out"
    assert of_ray("utils.metrics.SYNCH_WORKER_WEIGHTS_TIMER") == "synch_weights"
    assert of_ray("utils.metrics.NUM_ENV_STEPS_TRAINED") == "num_env_steps_trained"


def test_seeds():
    of_ray("utils.debug.update_global_seed_if_necessary")(seed=3)
    first = random.random(), np.random.random()
    of_ray("utils.debug.update_global_seed_if_necessary")("tf2", 3)
    assert (random.random(), np.random.random()) == first


def test_a_logger_shows_what_was_logged():
    logger = MetricsLogger()
    for value in (1.0, 2.0):
        logger.log_value("mean", value, ema_coeff=0.5)
        logger.log_value(("a", "sum"), value, reduce="sum")
        logger.log_value("item", value, reduce="item")
        logger.log_value("all", value, reduce="item_series")
        logger.log_value("parts", value, reduce="percentiles", percentiles=[0, 50])
    assert logger.peek("mean") == 1.5
    assert logger.peek(("a", "sum")) == logger.peek("a")["sum"] == 3
    assert logger.peek("item") == 2
    assert logger.peek("all") == logger.peek("all") == [1, 2]
    assert logger.peek("parts") == {0: 1, 50: 1.5}
    assert logger.peek("nothing", default=7) == 7
    with pytest.raises(KeyError, match="nothing"):
        logger.peek("nothing")
    merged = LoggedMetrics()
    merged.add(logger.take())
    described = merged.described()
    assert (described["item"], described["all"]) == (2, [1, 2])
    assert "all" not in merged.described()


def test_a_logger_measures_blocks_and_finds_results():
    logger = MetricsLogger()
    with logger.log_time(("timers", "block"), window=3):
        pass
    assert 0 <= logger.peek(("timers", "block")) < 60
    logger.results = lambda: {"env_runners": {"num_episodes": 4}}
    assert logger.peek(("env_runners", "num_episodes")) == 4


def test_a_config_takes_the_runners_that_an_algorithm_has():
    for name in ("single_agent_env_runner.SingleAgentEnvRunner", "env_runner.EnvRunner"):
        config = PPOConfig().environment("CartPole-v1")
        config.env_runners(env_runner_cls=of_ray(f"env.{name}")).validate()
    config.env_runners(env_runner_cls=type("Own", (of_ray("env.env_runner.EnvRunner"),), {}))
    with pytest.raises(UnsupportedRayFeatureError, match="play by their own env runners"):
        config.validate()


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("memory", [False, True])
def test_layers_begin_as_a_function_of_torch_says(memory):
    import torch

    def numbered(tensor, first):
        with torch.no_grad():
            tensor.copy_(torch.arange(tensor.numel()).reshape(tensor.shape) + first)

    options = DefaultModelConfig(
        fcnet_hiddens=[3],
        fcnet_kernel_initializer=numbered,
        fcnet_kernel_initializer_kwargs={"first": 5},
        fcnet_bias_initializer="constant_",
        fcnet_bias_initializer_kwargs={"val": 2.0},
        use_lstm=memory,
        lstm_cell_size=2,
    )
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    algorithm = config.copy().rl_module(model_config=options).build_algo()
    expected = np.arange(12).reshape(3, 4).T + 5  # PyTorch has the outputs first
    kernels = [each for each in algorithm.get_weights()["default_policy"] if each.shape == (4, 3)]
    assert len(kernels) == 1
    np.testing.assert_array_equal(kernels[0], expected)
    weights = algorithm.get_weights()["default_policy"]
    assert [each.tolist() for each in weights if each.shape == (3,)] == [[2.0] * 3]
    begins = []
    for seed in (1, 1, 2):
        model = {"fcnet_hiddens": [3], "fcnet_kernel_initializer": "xavier_uniform_"}
        made = config.copy().training(model=model).debugging(seed=seed).build_algo()
        begins.append(made.get_weights()["default_policy"][0])
    assert (begins[0] == begins[1]).all()
    assert (begins[0] != begins[2]).any()
    assert np.abs(begins[0]).max() <= np.sqrt(6 / 7)
    for model, error, match in (
        ({"fcnet_kernel_initializer": "xavier"}, ValueError, "'xavier_uniform_'"),
        (
            {"fcnet_kernel_initializer": "zeros_", "head_fcnet_hiddens": [3]},
            UnsupportedRayFeatureError,
            "leave head_fcnet_hiddens out|Leave head_fcnet_hiddens out",
        ),
    ):
        with pytest.raises(error, match=match):
            config.copy().training(model=model).build_algo()


def test_an_object_of_a_model_refuses_what_has_no_effect():
    options = DefaultModelConfig(fcnet_hiddens=[8], fcnet_bias_initializer="zeros_")
    assert PPOConfig().rl_module(model_config=options).model["fcnet_hiddens"] == [8]
    for name, value in (
        ("fcnet_use_layernorm", True),
        ("conv_kernel_initializer", "orthogonal_"),
        ("head_fcnet_bias_initializer", "ones_"),
        ("lstm_kernel_initializer_kwargs", {"gain": 2}),
    ):
        with pytest.raises(UnsupportedRayFeatureError, match=f"{name}=.*Use a TorchRLModule"):
            PPOConfig().rl_module(model_config=DefaultModelConfig(**{name: value}))
