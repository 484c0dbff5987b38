"""Catalogs make the parts of modules in PyTorch, and checkpoints have a folder for each module."""

from __future__ import annotations

import json
from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest
from raycompat.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec

from raycompat.rllib.algorithms import PPOConfig

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("keras") is None, reason="PyTorch is not installed"
)

BOX, TWO = gymnasium.spaces.Box(-1, 1, (3,), np.float32), gymnasium.spaces.Discrete(2)
BELOW = ("learner_group", "learner", "rl_module", "default_policy")


class Short(gymnasium.Env):
    """Episodes of four steps, whose actions have two parts."""

    observation_space = BOX
    action_space = gymnasium.spaces.Tuple([TWO, gymnasium.spaces.Discrete(3)])

    def __init__(self, config=None):
        self.left = 4

    def reset(self, *, seed=None, options=None):
        self.left = 4
        return np.zeros(3, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.left -= 1
        return np.zeros(3, np.float32), float(action[0]), self.left == 0, False, {}


def ppo(env, **model):
    return (
        PPOConfig()
        .environment(env)
        .env_runners(num_env_runners=0)
        .training(train_batch_size=16, minibatch_size=16, num_epochs=1, model=model)
        .debugging(seed=1)
    )


def catalog_of_ppo():
    from raycompat.rllib.torch_catalog import PPOCatalog

    return PPOCatalog


def test_a_catalog_of_a_program_makes_the_head_of_the_default_module():
    import torch
    from raycompat.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
    from raycompat.rllib.core.models.configs import MLPHeadConfig

    class Wide(PPOCatalog):
        def build_vf_head(self, framework):
            config = MLPHeadConfig(
                input_dims=self.latent_dims,
                hidden_layer_dims=[7],
                hidden_layer_activation="silu",
                hidden_layer_use_layernorm=True,
                output_layer_dim=1,
                output_layer_weights_initializer=torch.nn.init.zeros_,
            )
            return config.build(framework=framework)

    spec = RLModuleSpec(catalog_class=Wide, model_config={"fcnet_hiddens": [6, 5]})
    algorithm = ppo(Short).rl_module(rl_module_spec=spec).build_algo()
    module = algorithm.get_module()
    assert isinstance(module.catalog, Wide)
    assert module.catalog.latent_dims == (5,)
    names = [type(each).__name__ for each in module.vf.net]
    assert names == ["Linear", "LayerNorm", "SiLU", "Linear"]
    assert not module.vf.net[-1].weight.any()
    algorithm.train()
    assert module.vf.net[-1].weight.any()


def test_the_record_of_a_module_names_no_catalog():
    from raycompat.rllib.fixed_policies import RLModuleConfig
    from raycompat.rllib.torch_catalog import PPOCatalog
    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule

    module = DefaultPPOTorchRLModule(config=RLModuleConfig(BOX, TWO, {"fcnet_hiddens": [4]}))
    assert type(module.catalog) is type(module.config.get_catalog()) is PPOCatalog


def test_deviations_that_observations_do_not_change():
    import torch

    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule

    module = DefaultPPOTorchRLModule(
        BOX, BOX, model_config={"free_log_std": True, "fcnet_hiddens": [4]}
    )
    found = module.forward_train({"obs": torch.randn(5, 3)})["action_dist_inputs"]
    assert found.shape == (5, 6)
    assert not found[:, 3:].any()
    assert module.pi.log_std.requires_grad


def test_a_module_asks_its_catalog_for_parts_and_chooses_one_action_after_the_other():
    import torch
    from raycompat.rllib.core.models.base import ENCODER_OUT
    from raycompat.rllib.core.models.catalog import Catalog
    from raycompat.rllib.core.models.configs import MLPHeadConfig
    from raycompat.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
    from raycompat.rllib.core.rl_module.torch import TorchRLModule

    class InTurn(TorchRLModule, ValueFunctionAPI):
        def setup(self):
            self.encoder = self.catalog.build_encoder(framework=self.framework)
            (width,) = self.catalog.latent_dims
            first, second = self.action_dist_cls.required_input_dim(
                space=self.action_space, as_list=True
            )
            made = [
                MLPHeadConfig(input_dims=[n], hidden_layer_dims=[4], output_layer_dim=out).build()
                for n, out in ((width, first), (width + 1, second), (width, 1))
            ]
            self.first, self.second, self.vf = made

        def _forward(self, batch, **kwargs):
            features = self.encoder(batch)[ENCODER_OUT]
            before = self.first(features)
            unknown = torch.zeros(len(before), 3)
            begun = self.action_dist_cls.from_logits(torch.cat([before, unknown], -1))
            first = begun._flat_child_distributions[0].sample().view(-1, 1)
            after = self.second(torch.cat([features, first], -1))
            inputs = torch.cat([before, after], -1)
            whole = self.action_dist_cls.from_logits(inputs)
            actions = (first, whole._flat_child_distributions[1].sample())
            return {
                "actions": actions,
                "action_logp": whole.logp(actions),
                "action_dist_inputs": inputs,
            }

        def compute_values(self, batch, embeddings=None):
            return self.vf(self.encoder(batch)[ENCODER_OUT]).squeeze(-1)

    spec = RLModuleSpec(InTurn, catalog_class=Catalog, model_config={"fcnet_hiddens": [8]})
    learned = ppo(Short).rl_module(rl_module_spec=spec).build_algo().train()["learners"]
    assert np.isfinite(learned["default_policy"]["total_loss"])


def test_a_module_is_saved_and_another_one_begins_with_its_weights(tmp_path):
    import torch
    from raycompat.rllib.algorithms.ppo.torch.ppo_torch_rl_module import PPOTorchRLModule

    def spec(**options):
        model = {"fcnet_hiddens": [4], "vf_share_layers": False}
        return RLModuleSpec(PPOTorchRLModule, BOX, TWO, model_config=model, **options)

    saved = spec().build()
    path = saved.save_to_path(tmp_path / "saved")
    for again in (RLModule.from_checkpoint(path), spec(load_state_path=path).build()):
        for mine, theirs in zip(saved.parameters(), again.parameters(), strict=True):
            assert torch.equal(mine, theirs)
    with pytest.raises(ValueError, match="has no weights of a module"):
        spec(load_state_path=tmp_path / "nothing").build()


@pytest.mark.parametrize("shares", [False, True])
def test_the_algorithms_own_network_goes_on_in_pytorch(tmp_path, shares):
    import torch
    from raycompat.rllib.algorithms.ppo.torch.ppo_torch_rl_module import PPOTorchRLModule

    model = {"fcnet_hiddens": [6, 5], "head_fcnet_hiddens": [4], "vf_share_layers": shares}
    algorithm = ppo("CartPole-v1", **model).build_algo()
    folder = tmp_path.joinpath("saved", *BELOW)
    algorithm.save_to_path(tmp_path / "saved")
    assert folder.is_dir()
    spaces = algorithm.observation_space, algorithm.action_space
    module = RLModuleSpec(
        PPOTorchRLModule, *spaces, model_config=model, load_state_path=folder
    ).build()
    observations = torch.randn(3, 4)
    found, expected = (
        each.forward_inference({"obs": observations}) for each in (module, algorithm.get_module())
    )
    np.testing.assert_allclose(
        found["action_dist_inputs"].detach(), expected["action_dist_inputs"], atol=1e-5
    )
    values = module.compute_values({"obs": observations}).detach()
    np.testing.assert_allclose(values, expected["vf_preds"], atol=1e-5)
    with pytest.raises(ValueError, match="do not fit PPOTorchRLModule|do not fit DefaultPPO"):
        RLModuleSpec(PPOTorchRLModule, *spaces, load_state_path=folder).build()


def test_a_module_takes_what_a_smaller_one_has_learned(tmp_path):
    from raycompat.rllib.algorithms.ppo.torch.ppo_torch_rl_module import PPOTorchRLModule

    class Longer(PPOTorchRLModule):
        def setup(self):
            super().setup()
            self.more = self.catalog.build_vf_head(framework="torch")

    specs = [
        RLModuleSpec(cls, model_config={"fcnet_hiddens": [4]}) for cls in (PPOTorchRLModule, Longer)
    ]
    first, second = [ppo("CartPole-v1").rl_module(rl_module_spec=s).build_algo() for s in specs]
    path = first.save_to_path(tmp_path / "saved")
    more = second.get_module().more.net[0].weight.clone()
    second.restore_from_path(path, component="/".join(BELOW[:3]))
    ours, theirs = (each.get_module().state_dict() for each in (first, second))
    assert all((theirs[name] == ours[name]).all() for name in ours)
    assert (second.get_module().more.net[0].weight == more).all()
    with pytest.raises(ValueError, match="those of a module in PyTorch"):
        ppo("CartPole-v1").build_algo().restore_from_path(path, component="/".join(BELOW))


def test_options_by_policy_are_those_of_the_default_module():
    from raycompat.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec

    from raycompat.rllib.torch_learner import PPOTorchLearner

    spec = MultiRLModuleSpec(
        rl_module_specs={"default_policy": RLModuleSpec(model_config={"fcnet_hiddens": [3]})}
    )
    config = ppo(Short).training(learner_class=PPOTorchLearner).rl_module(rl_module_spec=spec)
    algorithm = config.build_algo()
    assert algorithm.get_module().catalog.latent_dims == (3,)
    assert algorithm._counters["of_a_program"] == 0
    algorithm.train()
    assert algorithm._counters["num_env_steps_sampled"] == algorithm.num_steps >= 16


def test_the_folder_of_all_modules_gives_them_by_name(tmp_path):
    spec = RLModuleSpec(catalog_class=catalog_of_ppo(), model_config={"fcnet_hiddens": [4]})
    algorithm = ppo(Short).rl_module(rl_module_spec=spec).build_algo()
    path = algorithm.save_to_path(tmp_path / "saved")
    modules = RLModule.from_checkpoint(tmp_path.joinpath("saved", *BELOW[:3]))
    assert list(modules) == ["default_policy"]
    own = RLModule.from_checkpoint(tmp_path.joinpath(path, *BELOW))
    theirs = modules["default_policy"].state_dict()
    assert all((theirs[name] == each).all() for name, each in own.state_dict().items())


def test_a_module_with_its_own_layers_reads_the_options_of_convolutions():
    import torch

    from raycompat.exceptions import UnsupportedRayFeatureError
    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule

    class Convolved(DefaultPPOTorchRLModule):
        def setup(self):
            ((channels, size, _),) = self.model_config["conv_filters"]
            self.encoder = torch.nn.Conv2d(3, channels, size)
            self.pi = torch.nn.Linear(channels, 2)

    image, model = gymnasium.spaces.Box(0, 1, (8, 8, 3), np.float32), {"conv_filters": [[4, 8, 1]]}
    assert Convolved(image, TWO, model_config=model).encoder.out_channels == 4
    # A head of the catalog is on the filters: 9 x 11, 5 x 6, 3 x 3 and 1 x 1 places.
    steps = {"conv_filters": [[4, 3, [2, 2]], [4, 3, 2], [45, [3, 3], 1, "valid"]]}
    catalog = catalog_of_ppo()(
        gymnasium.spaces.Box(0, 1, (9, 11, 3), np.float32), TWO, model_config_dict=steps
    )
    assert catalog.latent_dims == (45,)
    assert catalog.build_pi_head("torch")(torch.zeros(1, 45)).shape == (1, 2)
    remembers = {**model, "use_lstm": True}
    with pytest.raises(
        UnsupportedRayFeatureError, match="conv_filters, use_lstm in a network of Py"
    ):
        DefaultPPOTorchRLModule(image, TWO, model_config=remembers)
    made = catalog.build_encoder("torch")
    seen = {"obs": torch.ones(2, 9, 11, 3, dtype=torch.uint8)}
    assert made(seen)["encoder_out"].shape == (2, 45)
    # With weights of 1, the outputs count the places that are inside the image.
    for each in made.parameters():
        torch.nn.init.constant_(each, float(each.dim() > 1))
    counted = made.net[:2](torch.ones(1, 3, 9, 11))[0, 0]
    assert counted.shape == (5, 6)
    assert counted[0].tolist() == [12, 18, 18, 18, 18, 12]
    values = DefaultPPOTorchRLModule(image, TWO, model_config=model)
    assert values.compute_values({"obs": torch.zeros(2, 8, 8, 3)}).shape == (2,)


def test_convolutions_begin_as_asked_and_fit_into_their_images():
    image = gymnasium.spaces.Box(0, 1, (4, 4, 3), np.float32)

    def encoder(*filters, **options):
        model = {"conv_filters": filters, **options}
        return catalog_of_ppo()(image, TWO, model_config_dict=model).build_encoder("torch")

    begin = {"conv_kernel_initializer": "zeros_", "conv_bias_initializer": "constant_"}
    made = encoder([1, 2, 2], **begin, conv_bias_initializer_kwargs={"val": 3})
    kernel, bias = (each.detach() for each in made.parameters())
    assert (kernel.abs().sum(), bias.tolist()) == (0, [3])
    with pytest.raises(ValueError, match="padding='vlid': expected 'same' or 'valid'"):
        encoder([1, 2, 2, "vlid"])
    with pytest.raises(ValueError, match="a filter of 2 x 5 with 'valid' is larger than .* 4 x 4"):
        encoder([1, (2, 5), 1, "valid"])


def test_a_config_makes_modules_of_several_classes():
    from raycompat.rllib.fixed_policies import RLModuleConfig
    from raycompat.rllib.torch_module import DefaultBCTorchRLModule, DefaultPPOTorchRLModule

    config = RLModuleConfig(BOX, TWO, {"fcnet_hiddens": [4]})
    DefaultBCTorchRLModule(config)
    assert config.catalog_class is None
    assert DefaultPPOTorchRLModule(config).vf is not None


def test_a_module_in_pytorch_shows_the_parameters_of_modules():
    import inspect

    from raycompat.rllib.torch_module import TorchRLModule

    ours, all_modules = inspect.signature(TorchRLModule), inspect.signature(RLModule)
    assert ours.parameters == all_modules.parameters


@pytest.mark.parametrize("space", [TWO, Short.action_space, gymnasium.spaces.Tuple([BOX, BOX])])
def test_actions_without_deviations_have_no_free_ones(space):
    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule
    from raycompat.rllib.utils.error import UnsupportedSpaceException

    with pytest.raises(UnsupportedSpaceException, match="free_log_std=True: the actions of"):
        DefaultPPOTorchRLModule(BOX, space, model_config={"free_log_std": True})


def test_weights_of_other_names_are_refused(tmp_path):
    import torch
    from raycompat.rllib.core.rl_module.torch import TorchRLModule

    class First(TorchRLModule):
        def setup(self):
            self.first = torch.nn.Linear(3, 2)

    class Second(TorchRLModule):
        def setup(self):
            self.second = torch.nn.Linear(3, 2)

    path = First(BOX, TWO).save_to_path(tmp_path / "saved")
    with pytest.raises(
        ValueError, match="do not fit Second: the state has weights of .*first.bias"
    ):
        RLModuleSpec(Second, BOX, TWO, load_state_path=path).build()
    with pytest.raises(ValueError, match="expected some of .*'second.bias', 'second.weight'"):
        Second(BOX, TWO).set_state({"nope": np.zeros(2)})


def test_a_module_acts_by_the_distribution_of_its_catalog():
    import torch

    from raycompat.rllib.distributions import Part
    from raycompat.rllib.torch_distributions import TorchCategorical
    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule, ModuleNetwork, ModulePolicy

    class Second(TorchCategorical):
        @classmethod
        def from_logits(cls, logits, **kwargs):
            return cls(logits=torch.tensor([0.0, 50.0]).expand(len(logits), 2))

    class OfSecond(catalog_of_ppo()):
        def get_action_dist_cls(self, framework):
            return Second

    model = {"fcnet_hiddens": [4]}
    spec = RLModuleSpec(
        DefaultPPOTorchRLModule, BOX, TWO, model_config=model, catalog_class=OfSecond
    )
    policy = ModulePolicy(ModuleNetwork(spec), (Part(is_discrete=True, size=2),))
    rng = np.random.default_rng(0)
    for explore in (False, True):
        actions, extras = policy.act(np.zeros((20, 3), np.float32), rng, explore)
        assert actions.tolist() == [1] * 20
        np.testing.assert_allclose(extras["log_probabilities"], 0, atol=1e-6)


def test_bc_learns_a_module_of_its_own_catalog(tmp_path):
    from raycompat.rllib.algorithms import BCConfig
    from raycompat.rllib.torch_catalog import BCCatalog
    from raycompat.rllib.torch_module import DefaultBCTorchRLModule

    steps = {"obs": [[0.0, 0, 0]] * 4, "actions": [0, 1, 0, 1], "rewards": [1.0] * 4}
    ends = {"terminateds": [False, True] * 2, "truncateds": [False] * 4, "eps_id": [0, 0, 1, 1]}
    (tmp_path / "a.json").write_text(json.dumps({"type": "SampleBatch", **steps, **ends}))
    spec = RLModuleSpec(catalog_class=BCCatalog, model_config={"fcnet_hiddens": [4]})
    algorithm = (
        BCConfig()
        .environment(observation_space=BOX, action_space=TWO)
        .offline_data(input_=[str(tmp_path)], dataset_num_iters_per_learner=1)
        .training(train_batch_size_per_learner=4)
        .rl_module(rl_module_spec=spec)
        .build_algo()
    )
    assert type(algorithm.get_module()) is DefaultBCTorchRLModule
    assert np.isfinite(algorithm.train()["learners"]["default_policy"]["policy_loss"])
    algorithm.stop()


@pytest.mark.parametrize(
    "option", [{"head_fcnet_use_layernorm": True}, {"log_std_clip_param": 2.0}]
)
def test_options_of_heads_without_effect_are_refused(option):
    from raycompat.exceptions import UnsupportedRayFeatureError

    with pytest.raises(UnsupportedRayFeatureError, match=f"{next(iter(option))} in a network"):
        catalog_of_ppo()(BOX, TWO, option).build_pi_head()


def test_a_catalog_that_keeps_the_encoder_takes_images_as_vectors():
    import torch

    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule

    class Own(catalog_of_ppo()):
        pass

    image = gymnasium.spaces.Box(0, 1, (4, 4, 3), np.float32)
    module = DefaultPPOTorchRLModule(image, TWO, catalog_class=Own)
    found = module.forward_inference({"obs": torch.rand(2, 4, 4, 3)})
    assert found["action_dist_inputs"].shape == (2, 2)


@pytest.mark.parametrize("shares", [True, False])
def test_free_deviations_follow_their_head_in_networks_of_keras(shares):
    from raycompat.rllib.torch_module import DefaultPPOTorchRLModule

    model = {"fcnet_hiddens": [4], "free_log_std": True, "vf_share_layers": shares}
    module = DefaultPPOTorchRLModule(BOX, BOX, model_config=model)
    policy = [np.ones((3, 4)), np.ones(4), np.ones((4, 3)), np.ones(3), np.full(3, 7.0)]
    critic = [np.ones((4, 1)), np.ones(1)] if shares else [*policy[:2], np.ones((4, 1)), np.ones(1)]
    module.set_state(policy + critic)
    assert module.get_state()["pi.log_std"].tolist() == [7, 7, 7]
