"""Where tensors land that come from a GPU, without one; and CPU tensors as bytes."""

from __future__ import annotations

import pytest

from raycompat._pickling import tensor_bytes

torch = pytest.importorskip("torch")


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs that PyTorch sees, and of which this process has none."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(tensor_bytes, "_was_given_gpus", False)
    monkeypatch.delenv(tensor_bytes.VARIABLE, raising=False)
    return monkeypatch


def lands(index, place="default"):
    return str(tensor_bytes._device(index, place))


def test_a_process_without_a_gpu_gets_cpu_tensors(gpus):
    assert lands(1) == lands(None) == "cpu"


def test_a_process_that_was_given_gpus_gets_tensors_there(gpus):
    tensor_bytes.note_gpus(True)
    assert (lands(1), lands(None)) == ("cuda:1", "cpu")
    assert lands(5) == "cuda:0"  # the sender has seen more GPUs


def test_a_process_that_has_used_cuda_gets_tensors_there(gpus):
    gpus.setattr(torch.cuda, "is_initialized", lambda: True)
    assert lands(1) == "cuda:1"


@pytest.mark.parametrize(
    ("value", "device"), [("gpu", "cuda:1"), ("GPU", "cuda:1"), ("cpu", "cpu")]
)
def test_the_variable_lets_them_land_on_a_gpu_everywhere(gpus, value, device):
    gpus.setenv(tensor_bytes.VARIABLE, value)
    assert lands(1) == device


def test_without_cuda_they_land_on_the_cpu(gpus):
    tensor_bytes.note_gpus(True)
    gpus.setattr(torch.cuda, "is_available", lambda: False)
    assert lands(1) == "cpu"
    with pytest.raises(RuntimeError, match="process has none"):
        lands(1, "cuda")


def test_the_program_may_choose_the_place(gpus):
    assert (lands(None, "cuda"), lands(1, "cuda")) == ("cuda:0", "cuda:1")
    tensor_bytes.note_gpus(True)
    assert lands(1, "cpu") == "cpu"


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).reshape(3, 4).T,
        torch.ones(3, dtype=torch.bfloat16),
        torch.zeros(0, 2),
        torch.tensor(7),
        torch.ones(2, requires_grad=True),
    ],
    ids=["strided", "bfloat16", "empty", "scalar", "gradient"],
)
def test_a_cpu_tensor_is_its_bytes(tensor):
    function, (buffer, *about) = tensor_bytes.Reducer().to_bytes(tensor)
    found = function(bytes(buffer.raw()), *about)
    assert torch.equal(found, tensor)
    assert (found.dtype, found.requires_grad) == (tensor.dtype, tensor.requires_grad)
    found.detach().add_(1)  # it can be written to
