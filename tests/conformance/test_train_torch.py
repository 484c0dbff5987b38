"""PyTorch by Train: the process group, devices, models, data loaders, checkpoints, failures."""

import importlib
import os
import signal
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

#: Workers import PyTorch, which takes long on a loaded machine.
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(autouse=True, scope="module")
def imported():
    """Import PyTorch when the first of these tests runs: it takes long, and so would each collection."""
    global torch
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-torch")


@pytest.fixture
def train(cluster: ModuleType) -> ModuleType:
    return importlib.import_module(f"{cluster.__name__}.train")


@pytest.fixture
def train_torch(cluster: ModuleType) -> ModuleType:
    return importlib.import_module(f"{cluster.__name__}.train.torch")


@pytest.fixture
def fit(train, train_torch, tmp_path: Path):
    """Run a function on workers, and return the result."""

    def run(function, config=None, num_workers=2, max_failures=0, scaling=None, **options):
        return train_torch.TorchTrainer(
            function,
            train_loop_config=config,
            scaling_config=scaling or train.ScalingConfig(num_workers=num_workers),
            run_config=train.RunConfig(
                name=options.pop("name", "run"),
                storage_path=str(tmp_path / "runs"),
                failure_config=train.FailureConfig(max_failures=max_failures),
            ),
            **options,
        ).fit()

    return run


@pytest.fixture
def of_ranks(train, fit):
    """Run a function on workers, and return its results by rank."""
    report, get_context = train.report, train.get_context

    def run(function, **options):
        def loop(config):
            with tempfile.TemporaryDirectory() as folder:
                found = repr(function())
                (Path(folder) / str(get_context().get_world_rank())).write_text(found)
                report({}, checkpoint=checkpoint(folder))

        checkpoint = train.Checkpoint.from_directory
        with fit(loop, config={}, **options).checkpoint.as_directory() as folder:
            return [eval((Path(folder) / rank).read_text()) for rank in sorted(os.listdir(folder))]

    return run


def test_workers_are_members_of_one_group(of_ranks):
    def look():
        import torch.distributed as dist

        rank = torch.tensor([float(dist.get_rank())])
        dist.all_reduce(rank)
        names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"]
        names += ["MASTER_ADDR", "MASTER_PORT", "ACCELERATE_TORCH_DEVICE"]
        variables = {name: os.environ[name] for name in names}
        return dist.get_backend(), dist.get_rank(), rank.item(), variables

    first, second = of_ranks(look)
    assert first[:3] == ("gloo", 0, 1.0)
    assert second[:3] == ("gloo", 1, 1.0)
    for rank, (_, _, _, variables) in enumerate([first, second]):
        assert variables["RANK"] == variables["LOCAL_RANK"] == str(rank)
        assert variables["WORLD_SIZE"] == variables["LOCAL_WORLD_SIZE"] == "2"
        assert variables["NODE_RANK"] == "0"
        assert variables["ACCELERATE_TORCH_DEVICE"] == "cpu"
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        assert first[3][name] == second[3][name]


def test_the_group_by_an_address(of_ranks, train_torch):
    def look():
        import torch.distributed as dist

        total = torch.ones(1)
        dist.all_reduce(total)
        return total.item()

    config = train_torch.TorchConfig(backend="gloo", init_method="tcp", timeout_s=60)
    assert of_ranks(look, torch_config=config) == [2.0, 2.0]


def test_pytorch_has_a_thread_for_each_cpu(of_ranks, train):
    def look():
        return torch.get_num_threads()

    scaling = train.ScalingConfig(num_workers=1, resources_per_worker={"CPU": 2})
    assert of_ranks(look, scaling=scaling) == [2]


@pytest.mark.nightly
def test_the_program_can_make_the_group_again(of_ranks):
    def look():
        import torch.distributed as dist

        dist.barrier()
        dist.destroy_process_group()
        dist.init_process_group("gloo")  # by the variables
        total = torch.ones(1)
        dist.all_reduce(total)
        return total.item()

    assert of_ranks(look) == [2.0, 2.0]


def test_the_configuration(train_torch):
    config = train_torch.TorchConfig()
    assert config.to_dict() == {"backend": None, "init_method": "env", "timeout_s": 1800}
    assert train_torch.TorchConfig("nccl") == train_torch.TorchConfig(backend="nccl")


def test_devices(of_ranks, train_torch, train):
    get_device, get_devices = train_torch.get_device, train_torch.get_devices

    def look():
        return str(get_device()), [str(device) for device in get_devices()]

    assert of_ranks(look) == [("cpu", ["cpu"])] * 2
    if torch.cuda.device_count() == 1:
        return  # the cluster's second GPU does not exist, and the workers would be told so
    # The cluster's GPUs are numbers. Each worker sees those of all workers of its node.
    with_gpu = train.ScalingConfig(num_workers=2, use_gpu=True)
    config = train_torch.TorchConfig(backend="gloo")
    found = of_ranks(look, scaling=with_gpu, torch_config=config, name="with_gpu")
    assert sorted(found) == [("cuda:0", ["cuda:0"]), ("cuda:1", ["cuda:1"])]


@pytest.mark.parametrize(
    "name", ["get_device", "get_devices", "prepare_data_loader", "prepare_model"]
)
def test_outside_of_a_training_function(train_torch, name):
    value = {
        "prepare_data_loader": torch.utils.data.DataLoader([1, 2]),
        "prepare_model": torch.nn.Linear(1, 1),
    }
    with pytest.raises(RuntimeError):
        getattr(train_torch, name)(*[value[name]] if name in value else [])


@pytest.mark.parametrize("name", ["accelerate", "backward", "prepare_optimizer"])
def test_what_ray_has_given_up(train_torch, name):
    with pytest.raises(DeprecationWarning):
        getattr(train_torch, name)(*[] if name == "accelerate" else [None])


def test_a_model_is_trained_as_by_one_process(of_ranks, train, train_torch):
    prepare_model, prepare_data_loader = train_torch.prepare_model, train_torch.prepare_data_loader

    def learn():
        torch.manual_seed(0)
        model = prepare_model(torch.nn.Linear(1, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.linspace(0, 1, 16)[:, None]
        rows = torch.utils.data.TensorDataset(x, 3 * x + 1)
        size = torch.distributed.get_world_size()
        loader = prepare_data_loader(torch.utils.data.DataLoader(rows, batch_size=16 // size))
        for _ in range(20):
            for features, targets in loader:
                loss = ((model(features) - targets) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        weights = [each.item() for each in model.parameters()]
        return type(model).__name__, hasattr(model, "module"), weights

    (alone,) = of_ranks(learn, num_workers=1, name="alone")
    first, second = of_ranks(learn)
    assert alone[:2] == ("Linear", False)
    assert first == second
    assert first[:2] == ("DistributedDataParallel", True)
    assert first[2] == pytest.approx(alone[2], abs=1e-5)


def test_models_as_they_are_wanted(of_ranks, train_torch):
    prepare_model = train_torch.prepare_model

    def look():
        model = prepare_model(torch.nn.Linear(1, 1), parallel_strategy=None)
        elsewhere = prepare_model(
            torch.nn.Linear(1, 1), move_to_device=torch.device("meta"), parallel_strategy=None
        )
        kwargs = {"find_unused_parameters": True}
        wrapped = prepare_model(torch.nn.Linear(1, 1), parallel_strategy_kwargs=kwargs)
        try:
            prepare_model(torch.nn.Linear(1, 1), parallel_strategy="fsdp")
        except RuntimeError:
            refused = True
        device = next(elsewhere.parameters()).device.type
        return type(model).__name__, device, wrapped.find_unused_parameters, refused

    assert of_ranks(look) == [("Linear", "meta", True, True)] * 2


def test_a_data_loader_is_divided(of_ranks, train_torch):
    prepare = train_torch.prepare_data_loader

    def look():
        data = torch.utils.data
        rows = list(range(10))
        generator = torch.Generator()
        plain = prepare(data.DataLoader(rows, batch_size=2))
        last = prepare(data.DataLoader(rows, batch_size=2, drop_last=True, generator=generator))
        shuffled = prepare(data.DataLoader(rows, batch_size=5, shuffle=True))
        orders = []
        for epoch in (0, 0, 1):
            shuffled.sampler.set_epoch(epoch)
            orders.append([batch.tolist() for batch in shuffled])
        whole = prepare(data.DataLoader(rows, batch_size=5), add_dist_sampler=False)
        return (
            [batch.tolist() for batch in plain],
            (len(plain), len(last)),
            [len(batch) for batch in last],
            last.generator is generator,
            orders,
            [batch.tolist() for batch in whole],
            isinstance(plain, data.DataLoader),
        )

    first, second = of_ranks(look)
    assert first[0] == [[0, 2], [4, 6], [8]]
    assert second[0] == [[1, 3], [5, 7], [9]]
    for _, lengths, last, has_generator, orders, whole, is_loader in (first, second):
        assert lengths == (3, 2)
        assert last == [2, 2]
        assert has_generator
        assert orders[0] == orders[1] != orders[2]
        assert whole == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
        assert is_loader
    assert sorted(first[4][0][0] + second[4][0][0]) == list(range(10))


def test_data_loaders_that_cannot_be_divided(of_ranks, train_torch):
    prepare = train_torch.prepare_data_loader

    def look():
        data = torch.utils.data

        class Stream(data.IterableDataset):
            def __iter__(self):
                return iter(range(4))

        own = data.DistributedSampler(range(4), num_replicas=4, rank=3, shuffle=False)
        stream = prepare(data.DataLoader(Stream(), batch_size=4))
        sampled = prepare(data.DataLoader(range(4), sampler=own))
        return [batch.tolist() for batch in stream], [batch.tolist() for batch in sampled]

    assert of_ranks(look) == [([[0, 1, 2, 3]], [[3]])] * 2


@pytest.mark.nightly
def test_processes_that_load_data(of_ranks, train_torch):
    prepare = train_torch.prepare_data_loader

    def look():
        def label(worker):
            os.environ["LABEL"] = f"worker {worker}"

        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, index):
                return index, os.environ["LABEL"]

        loader = torch.utils.data.DataLoader(
            Rows(), batch_size=2, num_workers=2, worker_init_fn=label
        )
        return [(index.tolist(), list(labels)) for index, labels in prepare(loader)]

    first, second = of_ranks(look)
    assert [index for index, _ in first] == [[0, 2], [4, 6]]
    assert [index for index, _ in second] == [[1, 3], [5, 7]]
    assert [labels for _, labels in first] == [["worker 0"] * 2, ["worker 1"] * 2]


def test_reproducibility(of_ranks, train_torch):
    enable = train_torch.enable_reproducibility

    def look():
        import random

        import numpy as np

        numbers = []
        for _ in range(2):
            enable(7)
            numbers.append((torch.rand(1).item(), random.random(), float(np.random.rand())))
        return numbers, torch.are_deterministic_algorithms_enabled()

    (numbers, is_deterministic), _ = of_ranks(look)
    assert numbers[0] == numbers[1]
    assert is_deterministic


@pytest.mark.nightly
def test_a_killed_worker_and_the_latest_checkpoint(train, train_torch, fit):
    """A worker is killed while the others wait for it in an operation of the group."""
    report, get_checkpoint, get_context = train.report, train.get_checkpoint, train.get_context
    checkpoint_class, prepare_model = train.Checkpoint, train_torch.prepare_model

    def learn(config):
        start, model = 0, torch.nn.Linear(1, 1)
        if get_checkpoint() is not None:
            with get_checkpoint().as_directory() as found:
                saved = torch.load(Path(found) / "state.pt")
            start = saved["epoch"] + 1
            model.load_state_dict(saved["model"])
        rank = get_context().get_world_rank()
        model = prepare_model(model)
        for epoch in range(start, 3):
            if (epoch, rank, start) == (2, 1, 0):
                os.kill(os.getpid(), signal.SIGKILL)
            model(torch.ones(4, 1)).sum().backward()  # waits for all ranks
            with tempfile.TemporaryDirectory() as folder:
                if rank == 0:
                    saved = {"epoch": epoch, "model": model.module.state_dict()}
                    torch.save(saved, Path(folder) / "state.pt")
                checkpoint = checkpoint_class.from_directory(folder)
                report({"epoch": epoch, "start": start}, checkpoint=checkpoint)

    metrics = fit(learn, {}, max_failures=1).metrics
    assert metrics["epoch"] == 2
    assert metrics["start"] > 0  # Ray may lose the checkpoint that was reported last
    with pytest.raises(train.TrainingFailedError):
        fit(learn, {}, name="no other try")


def test_an_error_of_one_worker_ends_all(train, train_torch, fit):
    def learn():
        import torch.distributed as dist

        if dist.get_rank() == 1:
            raise ValueError("it fails on purpose")
        dist.all_reduce(torch.ones(1))

    with pytest.raises(train.TrainingFailedError, match="it fails on purpose"):
        fit(learn)


def test_checkpoints_of_states(train_torch, recwarn):
    model = torch.nn.Linear(2, 1)
    wrapped = {f"module.{name}": value for name, value in model.state_dict().items()}
    for state in (model.state_dict(), wrapped):
        checkpoint = train_torch.TorchCheckpoint.from_state_dict(state, preprocessor={"a": 1})
        found = checkpoint.get_model(torch.nn.Linear(2, 1))
        assert torch.equal(found.weight, model.weight)
        assert checkpoint.get_preprocessor() == {"a": 1}
    with pytest.raises(ValueError):
        checkpoint.get_model()


def test_checkpoints_of_models(train_torch, recwarn, tmp_path):
    model = torch.nn.Linear(2, 1)
    checkpoint = train_torch.TorchCheckpoint.from_model(model)
    assert torch.equal(checkpoint.get_model().weight, model.weight)
    assert checkpoint.get_preprocessor() is None
    with pytest.raises(RuntimeError, match="model.pt"):
        train_torch.TorchCheckpoint.from_directory(tmp_path).get_model()


@pytest.mark.nightly
def test_batches_of_a_data_set_on_the_device(of_ranks, cluster, train):
    data = importlib.import_module(f"{cluster.__name__}.data")
    data.DataContext.get_current().enable_progress_bars = False
    get_shard = train.get_dataset_shard

    def look():
        batches = list(get_shard("train").iter_torch_batches(batch_size=4, dtypes=torch.float32))
        devices = {str(batch["id"].device) for batch in batches}
        return sum(batch["id"].sum().item() for batch in batches), devices

    found = of_ranks(look, datasets={"train": data.range(16)})
    assert sum(total for total, _ in found) == sum(range(16))
    assert [devices for _, devices in found] == [{"cpu"}] * 2


def test_in_the_calling_process(train, train_torch, fit):
    def learn():
        loader = train_torch.prepare_data_loader(
            torch.utils.data.DataLoader(range(4), batch_size=2)
        )
        model = train_torch.prepare_model(torch.nn.Linear(1, 1))
        train.report({"rows": sum(len(batch) for batch in loader), "process": os.getpid()})
        return type(model).__name__, str(train_torch.get_device())

    result = fit(learn, num_workers=0)
    assert result.metrics == {"rows": 4, "process": os.getpid()}
    assert result.return_value == ("Linear", "cuda:0" if torch.cuda.is_available() else "cpu")
