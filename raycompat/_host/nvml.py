"""NVIDIA's management library: the GPUs of this machine, what they are, and what uses them.

The driver installs it as ``libnvidia-ml.so.1``. It works without a CUDA context, so asking it takes no
GPU memory. It is called through ctypes, because a package for it may be missing.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass

#: Bytes of the longest name or UUID, as NVML's header defines them.
_TEXT_BYTES = 96
#: Return codes: success, and an array that is too small.
_SUCCESS, _TOO_SMALL = 0, 7
#: The value of a number that the driver does not know.
_UNKNOWN = 2**64 - 1
#: The sensor of the chip.
_CHIP = 0


class NvmlError(OSError):
    """NVML is missing, or has refused a request. `code` is its return code."""

    def __init__(self, what: str, code: int | None = None) -> None:
        super().__init__(what if code is None else f"{what}: NVML's return code is {code}")
        self.code = code


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", c_uint),
        ("used", c_ulonglong),
        ("instance", c_uint),
        ("compute_instance", c_uint),
    )


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its index, its UUID, and its product's name."""

    index: int
    uuid: str
    name: str


@dataclass(frozen=True, slots=True)
class Sample:
    """What one GPU does now. None: the driver does not say it, for example for slices (MIG)."""

    memory_used_bytes: int | None
    memory_total_bytes: int | None
    #: 0 to 100, over the last fraction of a second.
    utilisation_percent: int | None
    temperature_celsius: int | None
    #: Bytes by process; None where the driver does not say how many.
    processes: dict[int, int | None]


class Nvml:
    """An initialised NVML; close it with `close`."""

    def __init__(self) -> None:
        """Load and initialise the library.

        Raises
        ------
        NvmlError
            When there is no driver of NVIDIA, or it does not work.
        """
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise NvmlError(f"there is no libnvidia-ml.so.1: {error}") from error
        self._call("nvmlInit_v2")

    def close(self) -> None:
        """Release the library."""
        self._call("nvmlShutdown")

    def _call(self, name: str, *arguments: object) -> None:
        try:
            function = getattr(self._library, name)
        except AttributeError as error:  # an old driver
            raise NvmlError(f"{name} is missing") from error
        code = function(*arguments)
        if code != _SUCCESS:
            raise NvmlError(name, code)

    def _text(self, name: str, handle: c_void_p) -> str:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._call(name, handle, text, c_uint(_TEXT_BYTES))
        return text.value.decode(errors="replace")

    def _handle(self, index: int) -> c_void_p:
        handle = c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle))
        return handle

    def gpus(self) -> list[Gpu]:
        """Return the GPUs of this machine, whatever ``CUDA_VISIBLE_DEVICES`` says."""
        count = c_uint()
        self._call("nvmlDeviceGetCount_v2", byref(count))
        found = []
        for index in range(count.value):
            handle = self._handle(index)
            uuid = self._text("nvmlDeviceGetUUID", handle)
            found.append(Gpu(index, uuid, self._text("nvmlDeviceGetName", handle)))
        return found

    def slices(self) -> list[str]:
        """Return the UUIDs of all MIG slices, which begin with ``MIG-``."""
        found = []
        for gpu in self.gpus():
            handle = self._handle(gpu.index)
            most = c_uint()
            with contextlib.suppress(NvmlError):  # this GPU has no slices
                self._call("nvmlDeviceGetMaxMigDeviceCount", handle, byref(most))
            for number in range(most.value):
                part = c_void_p()
                with contextlib.suppress(NvmlError):  # this place is empty
                    arguments = (handle, c_uint(number), byref(part))
                    self._call("nvmlDeviceGetMigDeviceHandleByIndex", *arguments)
                    found.append(self._text("nvmlDeviceGetUUID", part))
        return found

    def sample(self, name: str) -> Sample:
        """Return what a GPU does now; `name` is its index, its UUID, or the UUID of a slice.

        Raises
        ------
        NvmlError
            When there is no such GPU.
        """
        if name.isdigit():
            handle = self._handle(int(name))
        else:
            handle = c_void_p()
            self._call("nvmlDeviceGetHandleByUUID", c_char_p(name.encode()), byref(handle))
        memory, use, degrees = _Memory(), _Utilisation(), c_uint()
        has = [
            self._has("nvmlDeviceGetMemoryInfo", handle, byref(memory)),
            self._has("nvmlDeviceGetUtilizationRates", handle, byref(use)),
            self._has("nvmlDeviceGetTemperature", handle, c_uint(_CHIP), byref(degrees)),
        ]
        return Sample(
            memory.used if has[0] else None,
            memory.total if has[0] else None,
            use.gpu if has[1] else None,
            degrees.value if has[2] else None,
            self._processes(handle),
        )

    def _has(self, name: str, *arguments: object) -> bool:
        try:
            self._call(name, *arguments)
        except NvmlError:
            return False
        return True

    def _processes(self, handle: c_void_p) -> dict[int, int | None]:
        """Return the bytes of each process with a CUDA context; the list may grow meanwhile."""
        room = 32
        while True:
            count, found = c_uint(room), (_Process * room)()
            try:
                name = "nvmlDeviceGetComputeRunningProcesses_v3"
                self._call(name, handle, byref(count), found)
            except NvmlError as error:
                if error.code != _TOO_SMALL:
                    return {}
                room = 2 * max(room, count.value)
                continue
            return {
                each.pid: None if each.used == _UNKNOWN else each.used
                for each in found[: count.value]
            }


@contextlib.contextmanager
def opened() -> Iterator[Nvml]:
    """Open NVML for a few requests.

    Raises
    ------
    NvmlError
        When there is no driver of NVIDIA, or it does not work.
    """
    library = Nvml()
    try:
        yield library
    finally:
        library.close()
