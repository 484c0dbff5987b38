"""The parts of PyTorch's support that need no cluster: tensors, data loaders, devices, addresses."""

import collections
import importlib
import sys
from types import SimpleNamespace

import numpy as np
import psutil
import pyarrow as pa
import pytest

from raycompat.data import block
from raycompat.data import torch as tensors
from raycompat.train._worker import Place
from raycompat.train.torch import _process_group, config
from raycompat.train.torch import train_loop_utils as loops
from raycompat.train.torch._process_group import Member

Pair = collections.namedtuple("Pair", ["x", "y"])


@pytest.fixture(autouse=True, scope="module")
def imported():
    """Import PyTorch when the first of these tests runs: it takes long, and so would each collection."""
    global torch, loaders
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-torch")
    loaders = importlib.import_module("raycompat.train.torch._data_loader")


def test_without_pytorch_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'raycompat\[torch\]'"):
        tensors.Converter(None, "cpu", False)


# Tensors


def read_only(values):
    array = np.array(values)
    array.flags.writeable = False
    return array


def test_memory_that_cannot_be_written_is_copied():
    array = read_only([1, 2])
    tensor = tensors.to_tensor(array, None)  # a warning of PyTorch's would be an error
    tensor += 1
    assert (array.tolist(), tensor.tolist()) == ([1, 2], [2, 3])


def test_other_memory_is_not_copied():
    array = np.array([1, 2])
    tensor = tensors.to_tensor(array, None)
    tensor += 1
    assert array.tolist() == [2, 3]
    assert tensors.to_tensor(array, torch.float32).dtype == torch.float32


@pytest.mark.parametrize(
    "values", [["a", "b"], [np.ones(1), np.ones(2)], [1, None], [None, np.ones(1)]]
)
def test_rows_that_are_no_tensors(values):
    array = np.empty(2, object)
    array[:] = values
    error = TypeError if isinstance(values[0], str) else RuntimeError
    with pytest.raises(error, match="collate_fn"):
        tensors.to_tensor(array, None)


def tables(*sizes):
    starts = np.cumsum([0, *sizes])
    return [
        block.to_table({"x": np.arange(start, start + size), "v": np.ones((size, 2))})
        for start, size in zip(starts, sizes, strict=False)
    ]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("converted_bytes", [1, 100, 2**20])
def test_batches_that_are_cut_from_larger_ones(monkeypatch, drop_last, converted_bytes):
    monkeypatch.setattr(tensors, "_CONVERTED_BYTES", converted_bytes)
    converter = tensors.Converter(None, "cpu", False)
    batches = list(converter.batches(tables(5, 0, 1, 9, 2), 4, drop_last))
    sizes = [4, 4, 4, 4] if drop_last else [4, 4, 4, 4, 1]
    assert [len(batch["x"]) for batch in batches] == sizes
    assert torch.cat([batch["x"] for batch in batches]).tolist() == list(range(sum(sizes)))
    assert tuple(batches[0]["v"].shape) == (4, 2)


def test_batches_of_no_rows_and_of_no_columns():
    converter = tensors.Converter(None, "cpu", False)
    assert list(converter.batches([], 4, False)) == []
    assert list(converter.batches([pa.table({})], 4, False)) == []


def test_the_device_of_a_program_is_the_cpu():
    assert tensors.device_of("auto") == torch.device("cpu")
    assert tensors.device_of("cuda:1") == torch.device("cuda", 1)


# Data loaders


@pytest.mark.parametrize("in_background", [True, False])
def test_batches_are_moved(in_background):
    rows = [
        {"pair": Pair(torch.ones(1), index), "more": [torch.ones(2), "text"]} for index in range(3)
    ]
    loader = torch.utils.data.DataLoader(rows, batch_size=2)
    # No stream is made for this device: only GPUs have them.
    moved = loaders.DeviceLoader(loader, torch.device("meta"), in_background=in_background)
    assert len(moved) == 2
    assert isinstance(moved, torch.utils.data.DataLoader)
    assert (moved.batch_size, moved.sampler) == (2, loader.sampler)
    for _ in range(2):
        batches = list(moved)
        assert [len(batch["pair"].y) for batch in batches] == [2, 1]
        for batch in batches:
            assert isinstance(batch["pair"], Pair)
            assert batch["pair"].x.device.type == batch["more"][0].device.type == "meta"
            assert set(batch["more"][1]) == {"text"}


def test_a_loader_without_rows():
    loader = torch.utils.data.DataLoader([], batch_size=2)
    assert list(loaders.DeviceLoader(loader, torch.device("meta"), in_background=True)) == []


def test_a_divided_loader_keeps_its_options():
    def collate(rows):
        return rows

    loader = torch.utils.data.DataLoader(
        range(10),
        batch_size=3,
        shuffle=True,
        num_workers=2,
        collate_fn=collate,
        drop_last=True,
        timeout=7,
        prefetch_factor=5,
        persistent_workers=True,
        multiprocessing_context="spawn",
        pin_memory=True,
    )
    part = loaders.divided(loader, 2, 1)
    names = ["batch_size", "num_workers", "collate_fn", "drop_last", "timeout", "prefetch_factor"]
    names += ["persistent_workers", "multiprocessing_context", "pin_memory"]
    assert {name: getattr(part, name) for name in names} == {
        name: getattr(loader, name) for name in names
    }
    sampler = part.sampler
    assert (sampler.num_replicas, sampler.rank, sampler.shuffle) == (2, 1, True)
    assert not loaders.divided(torch.utils.data.DataLoader(range(4)), 2, 0).sampler.shuffle
    single = loaders.divided(torch.utils.data.DataLoader(range(4), batch_size=None), 2, 0)
    assert list(single) == [0, 2]


def test_a_batch_sampler_of_the_program():
    data = torch.utils.data
    plain = data.BatchSampler(data.SequentialSampler(range(4)), 2, False)
    with pytest.raises(ValueError, match="add_dist_sampler=False"):
        loaders.can_divide(data.DataLoader(range(4), batch_sampler=plain))
    own = data.BatchSampler(data.DistributedSampler(range(4), 2, 0), 2, False)
    assert not loaders.can_divide(data.DataLoader(range(4), batch_sampler=own))


# Devices and addresses


def test_devices_are_counted_among_those_that_are_visible(monkeypatch):
    monkeypatch.setattr(_process_group.ray, "get_gpu_ids", lambda: ["5", "2"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5")
    assert _process_group.devices() == [torch.device("cuda", 2), torch.device("cuda", 0)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    with pytest.raises(RuntimeError, match="the GPUs 5"):
        _process_group.devices()
    monkeypatch.setattr(_process_group.ray, "get_gpu_ids", list)
    assert _process_group.devices() == [torch.device("cpu")]


def test_gpus_that_pytorch_does_not_see_are_told_before_cuda_does(monkeypatch):
    check, gpus = _process_group.check_gpus_exist, [torch.device("cuda", n) for n in (0, 1)]
    monkeypatch.setattr(_process_group.ray, "get_gpu_ids", lambda: [0, 1])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    check(gpus, "gloo")  # they are numbers
    with pytest.raises(RuntimeError, match=r"PyTorch sees 0 GPUs.*use_gpu=False"):
        check(gpus, "nccl")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    check([gpus[0], torch.device("cpu")])
    for backend in ("nccl", "gloo"):
        with pytest.raises(RuntimeError, match=r"PyTorch sees 1 GPUs.*'GPU': 0.5"):
            check(gpus, backend)


@pytest.fixture
def worker(monkeypatch):
    """Make this thread the second of two workers of Train; its GPU is missing, as all are."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    context = SimpleNamespace(get_world_size=lambda: 2, get_world_rank=lambda: 1)
    monkeypatch.setattr(loops._session, "current", lambda caller: SimpleNamespace(context=context))
    monkeypatch.setattr(loops, "get_device", lambda: torch.device("cuda", 1))
    monkeypatch.setattr(_process_group.ray, "get_gpu_ids", lambda: [1])


def test_what_moves_to_a_gpu_that_does_not_exist_is_told_so(worker):
    model = torch.nn.Linear(1, 1)
    loader = torch.utils.data.DataLoader(range(4), pin_memory=True)
    with pytest.raises(RuntimeError, match="move_to_device=False"):
        loops.prepare_model(model)
    with pytest.raises(RuntimeError, match="move_to_device=False"):
        loops.prepare_data_loader(loader)
    assert loops.prepare_model(model, False, None) is model
    part = loops.prepare_data_loader(loader, move_to_device=False)
    assert part.pin_memory
    assert list(part.sampler) == [1, 3]


def test_fsdp_wraps_the_model_that_was_moved(worker, monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: calls.append(device))
    from torch.distributed import fsdp

    def wrap(model, **options):
        calls.append(("fsdp", model, options))
        return "wrapped"

    monkeypatch.setattr(fsdp, "FullyShardedDataParallel", wrap)
    model = SimpleNamespace(to=lambda device: f"model on {device}")
    options = {"mixed_precision": fsdp.MixedPrecision(param_dtype=torch.bfloat16)}
    given = {"parallel_strategy": "fsdp", "parallel_strategy_kwargs": options}
    assert loops.prepare_model(model, **given) == "wrapped"
    assert calls == [torch.device("cuda", 1), ("fsdp", "model on cuda:1", options)]


def test_mixed_precision_of_older_rays_names_that_of_pytorch():
    with (
        pytest.warns(match=r"torch\.autocast"),
        pytest.raises(NotImplementedError, match=r"torch\.autocast"),
    ):
        loops.accelerate(amp=True)


def test_nccl_needs_a_gpu_for_each_worker():
    def group(*places):
        workers = [
            SimpleNamespace(rank=rank, place=Place(node, "10.0.0.1", 1, gpus))
            for rank, (node, gpus) in enumerate(places)
        ]
        return SimpleNamespace(workers=workers)

    config._check_one_gpu_each(group(("a", ["0"]), ("a", ["1"]), ("b", ["0"]), ("b", [])))
    with pytest.raises(ValueError, match=r"the workers \[0, 2\] have the same"):
        config._check_one_gpu_each(group(("a", ["0"]), ("b", ["0"]), ("a", ["0"])))


def member(host):
    return Member(host, 1234, rank=0, size=1, local_rank=0, local_size=1, node_rank=0)


def test_addresses():
    assert member("10.0.0.1").url("tcp") == "tcp://10.0.0.1:1234"
    assert member("fe80::1").url("tcp") == "tcp://[fe80::1]:1234"
    assert member("fe80::1").url("env") == "env://"


def test_the_interface_of_an_address():
    loopback = _process_group.interface_of("127.0.0.1")
    assert "127.0.0.1" in [entry.address for entry in psutil.net_if_addrs()[loopback]]
    assert _process_group.interface_of("203.0.113.7") is None


def test_ports_are_chosen_by_the_kernel():
    ports = set()
    stores = []
    try:
        for _ in range(3):
            ports.add(_process_group.listen("127.0.0.1", 1, 10))
            stores.append(_process_group._store)
    finally:
        _process_group._store = None
    assert len(ports) == 3
