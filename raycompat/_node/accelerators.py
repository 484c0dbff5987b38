"""The GPUs of a node: their number, their type, and the ids that a call sees.

A node has GPUs of one maker. Makers differ in how their GPUs are found, and in the variable that
restricts a process to some of them (`MAKERS`). Ids are what stands in that variable: an index, a UUID
or the UUID of a slice of a GPU (MIG).
"""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from raycompat._host import device_files, namespaces, nvml
from raycompat._protocol.resource_set import TYPE_RESOURCE

logger = logging.getLogger(__name__)


#: PCI's numbers of makers, and the classes of devices that are GPUs.
_AMD_VENDOR, _INTEL_VENDOR = 0x1002, 0x8086
_GPU_CLASSES = (0x0300, 0x0302, 0x0380, 0x1200)

#: Types by the device's number on the PCI bus. They are Ray's names.
_AMD_TYPES = {
    0x66A1: "AMD-Instinct-MI50",
    0x738C: "AMD-Instinct-MI100",
    0x7408: "AMD-Instinct-MI250X",
    0x740C: "AMD-Instinct-MI250X-MI250",
    0x740F: "AMD-Instinct-MI210",
    0x74A0: "AMD-Instinct-MI300A",
    0x74A1: "AMD-Instinct-MI300X-OAM",
    0x74A2: "AMD-Instinct-MI308X-OAM",
    0x74A5: "AMD-Instinct-MI325X-OAM",
    0x74A9: "AMD-Instinct-MI300X-HF",
    0x75A0: "AMD-Instinct-MI350X-OAM",
    0x75A3: "AMD-Instinct-MI355X-OAM",
    0x6798: "AMD-Radeon-R9-200-HD-7900",
    0x6799: "AMD-Radeon-HD-7900",
    0x679A: "AMD-Radeon-HD-7900",
    0x679B: "AMD-Radeon-HD-7900",
}
#: Only GPUs for computing: graphics in a processor are not GPUs of a node.
_INTEL_TYPES = {
    0x0BD5: "Intel-GPU-Max-1550",
    0x0BD6: "Intel-GPU-Max-1550",
    0x0BDA: "Intel-GPU-Max-1100",
    0x0BDB: "Intel-GPU-Max-1100",
}


#: How the UUIDs of NVIDIA's GPUs and of their slices begin.
_UUID = ("GPU-", "MIG-")


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU that was found: its type if known, and the names by which a variable can mean it."""

    type: str | None
    names: tuple[str, ...]

    @property
    def uuid(self) -> str | None:
        """Its UUID, which no other GPU of any machine has; None if it is not known."""
        return self.names[-1] if self.names[-1].startswith(_UUID) else None


@dataclass(frozen=True, slots=True)
class Maker:
    """A maker of GPUs: the variable that restricts a process to some, and how its GPUs are found."""

    name: str
    variable: str
    find: Callable[[], list[Device]]


@dataclass(frozen=True, slots=True)
class Found:
    """The GPUs that this process may use: their maker, ids, and type."""

    maker: Maker
    ids: tuple[str, ...]
    type: str | None
    #: Ids in the maker's variable that name no GPU.
    ignored: tuple[str, ...] = ()


# --- the makers -------------------------------------------------------------------------------------


def nvidia_type(product: str) -> str | None:
    """Return Ray's name of a type: "NVIDIA A100-SXM4-40GB" is an A100.

    The model is the first word with a digit among words in capitals that follow the maker's name. A
    product without one, such as "NVIDIA GeForce RTX 5090", is called by all of its words.
    """
    words = product.split()
    model: list[str] = []
    for word in words[1:]:
        head = re.match(r"[A-Z0-9]*", word)
        assert head is not None
        if re.search(r"\d", head[0]):
            found = "-".join([*model, head[0]])
            if len(found) > 1:
                return found
            break
        if not word.isupper() or not word.isalpha():
            break
        model.append(word)
    return "-".join(words[1:] if words[:1] == ["NVIDIA"] else words) or None


def _of_nvidia() -> list[Device]:
    try:
        with nvml.opened() as library:
            gpus, slices = library.gpus(), library.slices()
    except nvml.NvmlError as error:
        logger.debug("NVML: %s", error)
        return _of_nvidia_without_nvml()
    devices = [Device(nvidia_type(gpu.name), (str(gpu.index), gpu.uuid)) for gpu in gpus]
    kind = devices[0].type if devices else None
    return devices + [Device(kind, (uuid,)) for uuid in slices]


def _of_nvidia_without_nvml() -> list[Device]:
    """Return the GPUs that the driver's files list; without these, those with a device file."""
    devices = []
    for index, folder in enumerate(sorted(device_files.NVIDIA_GPUS.glob("*/information"))):
        lines = folder.read_text(errors="replace").splitlines()
        about = {
            key.strip(): text.strip() for key, _, text in (each.partition(":") for each in lines)
        }
        names = [str(index), about.get("GPU UUID", "")]
        devices.append(Device(nvidia_type(about.get("Model", "")), tuple(filter(None, names))))
    if devices:
        return devices
    files = [each.name[6:] for each in device_files.FOLDER.glob("nvidia[0-9]*")]
    return [Device(None, (name,)) for name in sorted(filter(str.isdigit, files), key=int)]


def _on_pci_bus(vendor: int, types: Mapping[int, str], *, only_known: bool) -> list[Device]:
    kinds: list[str | None] = []
    for folder in sorted(device_files.PCI.glob("*")):
        try:
            numbers = [
                int((folder / name).read_text(), 16) for name in ("vendor", "class", "device")
            ]
        except (OSError, ValueError):  # the device was removed just now
            continue
        if numbers[0] == vendor and numbers[1] >> 8 in _GPU_CLASSES:
            kind = types.get(numbers[2])
            if kind is not None or not only_known:
                kinds.append(kind)
    return [Device(kind, (str(index),)) for index, kind in enumerate(kinds)]


def _of_amd() -> list[Device]:
    if not device_files.AMD_DRIVER.exists():  # the driver for computing is not loaded
        return []
    return _on_pci_bus(_AMD_VENDOR, _AMD_TYPES, only_known=False)


def _of_intel() -> list[Device]:
    return _on_pci_bus(_INTEL_VENDOR, _INTEL_TYPES, only_known=True)


NVIDIA = Maker("NVIDIA", "CUDA_VISIBLE_DEVICES", _of_nvidia)

#: In the order in which they are looked for.
MAKERS = (
    Maker("AMD", "HIP_VISIBLE_DEVICES", _of_amd),
    Maker("Intel", "ZE_AFFINITY_MASK", _of_intel),
    NVIDIA,
)


# --- the GPUs of this process -------------------------------------------------------------------------


def _listed(variable: str, environment: Mapping[str, str]) -> list[str] | None:
    """Return the ids in a variable; None if it is not set."""
    value = environment.get(variable)
    if value is None:
        return None
    return [
        part.strip() for part in value.split(",") if part.strip() not in ("", "-1", "NoDevFiles")
    ]


def _means(name: str, device: Device) -> bool:
    """Return whether a name, which may be the beginning of a UUID, means a device."""
    return name in device.names or (
        name.startswith(_UUID) and any(each.startswith(name) for each in device.names)
    )


def choose(maker: Maker, devices: Sequence[Device], environment: Mapping[str, str]) -> Found:
    """Return the GPUs among `devices` that the maker's variable allows."""
    listed = _listed(maker.variable, environment)
    if listed is None:
        # Slices count only when they are named, as for CUDA.
        whole = [each for each in devices if not each.names[0].startswith("MIG-")]
        kind = whole[0].type if whole else None
        return Found(maker, tuple(each.names[0] for each in whole), kind)
    named = {name: device for name in listed for device in devices if _means(name, device)}
    ignored = tuple(name for name in listed if name not in named)
    kind = next((device.type for device in named.values()), None)
    return Found(maker, tuple(named), kind, ignored)


@functools.cache
def _hardware() -> tuple[Maker, list[Device]]:
    """Return the first maker with GPUs in this machine, and these; they are looked for once."""
    for maker in MAKERS:
        devices = maker.find()
        if devices:
            return maker, devices
    return NVIDIA, []


def found() -> Found:
    """Return the GPUs that this process may use.

    Raises
    ------
    RuntimeError
        When AMD's GPUs are restricted by a variable that calls are not given.
    """
    maker, devices = _hardware()
    is_hidden = "ROCR_VISIBLE_DEVICES" in os.environ and maker.variable not in os.environ
    if maker.name == "AMD" and is_hidden:
        raise RuntimeError(  # Ray's class for it
            "ROCR_VISIBLE_DEVICES is set. Use HIP_VISIBLE_DEVICES instead: calls are given that one."
        )
    return choose(maker, devices, os.environ)


def preset() -> list[str] | None:
    """Return the ids in the maker's variable; None if it was not set when the node started.

    Where there is no GPU they name logical ones.
    """
    if not any(maker.variable in os.environ for maker in MAKERS):
        return None  # without looking for GPUs
    gpus = found()
    listed = _listed(gpus.maker.variable, os.environ)
    return list(gpus.ids) if listed is not None and gpus.ids else listed


def detect_gpus() -> int:
    """Return the number of GPUs that this process may use; log which ids in the variable name none."""
    gpus = found()
    if gpus.ignored:
        logger.warning(
            "%s=%r: this machine has no GPU %s, so it is not counted.",
            gpus.maker.variable,
            os.environ[gpus.maker.variable],
            " and no GPU ".join(gpus.ignored),
        )
    return len(gpus.ids)


def type_of(totals: Mapping[str, float]) -> str | None:
    """Return the type of a node's GPUs: the one that it declares as a resource, else the one found."""
    declared = [
        name for name, amount in totals.items() if amount and name.startswith(TYPE_RESOURCE)
    ]
    if declared:
        return declared[0].removeprefix(TYPE_RESOURCE)
    return found().type if totals.get("GPU") else None


def _of_this_process() -> list[Device]:
    """Return the GPUs that this process may use, in the order of their ids."""
    _, devices = _hardware()
    return [next(each for each in devices if _means(name, each)) for name in found().ids]


def global_ids() -> list[str]:
    """Return ids of the GPUs that this process may use, which all nodes give to the same GPUs.

    A GPU whose UUID is not known is named by its machine and its index there.
    """
    place = f"{namespaces.boot_id()}:{found().maker.name}"
    return [each.uuid or f"{place}:{each.names[0]}" for each in _of_this_process()]


def watched_ids() -> list[str]:
    """Return the ids of the GPUs that NVML can describe: NVIDIA's."""
    return [each.names[-1] for each in _of_this_process()] if found().maker is NVIDIA else []


def variable() -> str:
    """Return the variable that restricts a call to its GPUs."""
    return found().maker.variable


def visible_ids(slots: Iterable[int]) -> list[str]:
    """Return the ids of the GPUs with these indices, for the maker's variable.

    A node can have more logical GPUs than real ones: the id of a logical GPU is its index.
    """
    visible = preset() or []
    return [visible[slot] if slot < len(visible) else str(slot) for slot in slots]
