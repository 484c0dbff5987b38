"""The accelerators of this machine as files, and those that this process has open."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: The folder of the device files, and the file of AMD's driver for computing.
FOLDER, AMD_DRIVER = Path("/dev"), Path("/dev/kfd")

#: A folder for each PCI device, and one for each GPU of NVIDIA's driver.
PCI, NVIDIA_GPUS = Path("/sys/bus/pci/devices"), Path("/proc/driver/nvidia/gpus")

#: The files that processes open when they initialise CUDA, ROCm and Level Zero.
_GPU_FILES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")


def open_gpu_drivers(descriptors: str = "/proc/self/fd") -> list[str]:
    """Return the files of GPU drivers that this process has open: then a fork cannot use the GPU."""
    links = []
    for name in os.listdir(descriptors):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is closed
            links.append(os.readlink(os.path.join(descriptors, name)))
    return sorted({each for each in links if each.startswith(_GPU_FILES)})
