"""GPUs are found, typed and numbered, for fake machines of several kinds."""

import os

import pytest

from raycompat._host import device_files, namespaces, nvml
from raycompat._node import accelerators, forkserver
from raycompat._node.accelerators import MAKERS, NVIDIA, Device, choose, nvidia_type
from raycompat._protocol import accelerator_kinds

H100 = "NVIDIA H100 80GB HBM3"
TWO = [
    Device("H100", ("0", "GPU-aa11-5")),
    Device("H100", ("1", "GPU-bb22-6")),
    Device("H100", ("MIG-cc33-7",)),
]


@pytest.fixture
def machine(monkeypatch):
    """A function that makes this machine one with these GPUs of a maker."""

    def be(devices, name="NVIDIA"):
        maker = next(each for each in MAKERS if each.name == name)
        monkeypatch.setattr(accelerators, "_hardware", lambda: (maker, devices))

    for maker in MAKERS:
        monkeypatch.delenv(maker.variable, raising=False)
    monkeypatch.delenv("ROCR_VISIBLE_DEVICES", raising=False)
    return be


@pytest.mark.parametrize(
    ("product", "kind"),
    [
        (H100, "H100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
        ("NVIDIA GeForce RTX 5090", "GeForce-RTX-5090"),
        ("", None),
    ],
)
def test_types_are_named_as_in_ray(product, kind):
    assert nvidia_type(product) == kind


@pytest.mark.parametrize(
    ("listed", "ids", "ignored"),
    [
        (None, ("0", "1"), ()),
        ("", (), ()),
        ("-1", (), ()),
        ("NoDevFiles", (), ()),
        ("1", ("1",), ()),
        ("1, 0", ("1", "0"), ()),
        ("GPU-bb22-6", ("GPU-bb22-6",), ()),
        ("GPU-bb", ("GPU-bb",), ()),
        ("MIG-cc33-7", ("MIG-cc33-7",), ()),
        ("7,1", ("1",), ("7",)),
        ("GPU-ee,0,MIG-x", ("0",), ("GPU-ee", "MIG-x")),
    ],
)
def test_the_variable_names_gpus_by_index_uuid_or_slice(listed, ids, ignored):
    environment = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    gpus = choose(NVIDIA, TWO, environment)
    assert (gpus.ids, gpus.ignored) == (ids, ignored)
    assert gpus.type == ("H100" if ids else None)


def test_gpus_that_do_not_exist_are_not_counted_and_are_logged(machine, monkeypatch, caplog):
    machine(TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,1")
    assert accelerators.detect_gpus() == 1
    assert "no GPU 7" in caplog.text
    assert accelerators.visible_ids([0]) == ["1"]


def test_all_nodes_give_a_gpu_the_same_id(machine, monkeypatch):
    machine(TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,GPU-aa,MIG-cc33-7")
    assert accelerators.global_ids() == ["GPU-bb22-6", "GPU-aa11-5", "MIG-cc33-7"]
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1,0")
    machine([Device(None, ("0",)), Device(None, ("1",))], "AMD")
    first, second = accelerators.global_ids()
    assert first.endswith(":AMD:1")
    assert second.endswith(":AMD:0")
    assert first.split(":")[0] == second.split(":")[0] == namespaces.boot_id()


def test_without_gpus_the_variable_names_logical_ones(machine, monkeypatch):
    machine([])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,5")
    assert accelerators.detect_gpus() == 0
    assert accelerators.preset() == ["7", "5"]
    assert accelerators.visible_ids([1, 2]) == ["5", "2"]


def test_a_declared_type_comes_before_that_of_the_gpus(machine):
    machine(TWO)
    assert accelerators.type_of({"GPU": 2}) == "H100"
    assert accelerators.type_of({"GPU": 0}) is None
    assert accelerators.type_of({"GPU": 2, "accelerator_type:A100": 1}) == "A100"


def test_nvidia_without_nvml_is_read_from_the_drivers_files(tmp_path, monkeypatch):
    def no_library():
        raise nvml.NvmlError("there is none")

    monkeypatch.setattr(nvml, "opened", no_library)
    monkeypatch.setattr(device_files, "NVIDIA_GPUS", tmp_path)
    for bus, uuid in [("0000:0a", "GPU-1"), ("0000:0b", "GPU-2")]:
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "information").write_text(f"Model: \t\t {H100}\nGPU UUID:\t {uuid}\n")
    assert NVIDIA.find() == [Device("H100", ("0", "GPU-1")), Device("H100", ("1", "GPU-2"))]


def test_gpus_of_amd_and_intel_are_found_on_the_pci_bus(tmp_path, monkeypatch):
    monkeypatch.setattr(device_files, "PCI", tmp_path)
    for bus, vendor, kind, device in [
        ("a", 0x1002, 0x030000, 0x74A1),
        ("b", 0x1002, 0x120000, 0x1234),
        ("c", 0x1002, 0x040300, 0x74A1),  # its sound
        ("d", 0x8086, 0x038000, 0x0BDA),
        ("e", 0x8086, 0x030000, 0x9A49),  # graphics in a processor
    ]:
        (tmp_path / bus).mkdir()
        for name, number in [("vendor", vendor), ("class", kind), ("device", device)]:
            (tmp_path / bus / name).write_text(f"0x{number:x}\n")
    amd = accelerators._on_pci_bus(0x1002, accelerators._AMD_TYPES, only_known=False)
    assert amd == [Device("AMD-Instinct-MI300X-OAM", ("0",)), Device(None, ("1",))]
    assert accelerators._of_intel() == [Device("Intel-GPU-Max-1100", ("0",))]


def test_calls_on_amd_get_the_variable_of_hip(machine, monkeypatch):
    machine([Device("AMD-Instinct-MI210", ("0",))], "AMD")
    assert accelerators.variable() == "HIP_VISIBLE_DEVICES"
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "0")
    with pytest.raises(RuntimeError, match="HIP_VISIBLE_DEVICES"):
        accelerators.detect_gpus()


@pytest.mark.parametrize(
    ("gpus", "variables", "seen"),
    [
        (["1"], {}, "1"),
        (["1"], {"RAY_EXPERIMENTAL_NOSET_HIP_VISIBLE_DEVICES": "1"}, "0,1"),
        (["1"], {"RAY_EXPERIMENTAL_NOSET_HIP_VISIBLE_DEVICES": "0"}, "1"),
        (["1"], {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}, "1"),
        ([], {}, "0,1"),
        ([], {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}, ""),
    ],
)
def test_what_a_call_sees_follows_rays_variables(gpus, variables, seen, monkeypatch):
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "0,1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    accelerator_kinds.show({"GPU": gpus}, "HIP_VISIBLE_DEVICES")
    assert os.environ["HIP_VISIBLE_DEVICES"] == seen


def test_a_forkserver_sees_that_an_import_has_opened_a_driver(tmp_path, monkeypatch):
    for number, file in enumerate(
        ["/dev/null", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidiactl"]
    ):
        (tmp_path / str(number)).symlink_to(file)
    assert device_files.open_gpu_drivers(str(tmp_path)) == ["/dev/nvidia-uvm", "/dev/nvidiactl"]
    monkeypatch.setattr(device_files, "open_gpu_drivers", lambda: ["/dev/nvidiactl"])
    with pytest.raises(RuntimeError, match="Importing torch has opened /dev/nvidiactl"):
        forkserver._check_can_fork(["torch"])
