"""NVML's error codes: which of them mean what, and in words an operator can act on.

Codes: `nvmlReturn_t` of nvml.h. Kept as numbers, since the bindings are loaded lazily.
"""

from __future__ import annotations

NOT_SUPPORTED = 3
_NO_PERMISSION = 4
_INSUFFICIENT_POWER = 8
_DRIVER_NOT_LOADED = 9
_IRQ_ISSUE = 11
_LIBRARY_NOT_FOUND = 12
_FUNCTION_NOT_FOUND = 13
_GPU_IS_LOST = 15
_RESET_REQUIRED = 16
_OPERATING_SYSTEM = 17
_VERSION_MISMATCH = 18
_ARGUMENT_VERSION_MISMATCH = 25
_DEPRECATED = 26

UNSUPPORTED = frozenset({NOT_SUPPORTED, _FUNCTION_NOT_FOUND, _ARGUMENT_VERSION_MISMATCH, _DEPRECATED})
"""This GPU with this driver never answers this call."""

FAILED_GPU = frozenset({_INSUFFICIENT_POWER, _IRQ_ISSUE, _GPU_IS_LOST, _RESET_REQUIRED})
"""The GPU itself is down; asking it for more is of no use."""

_SOURCE = {
    _NO_PERMISSION: "no permission to use the NVIDIA driver; check the rights on /dev/nvidiactl",
    _DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded; load it with `modprobe nvidia`",
    _LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not there; install the NVIDIA driver on this machine",
    _OPERATING_SYSTEM: "the system blocks access to the NVIDIA driver; give the container its devices",
    _VERSION_MISMATCH: (
        "the NVIDIA driver in the kernel and its library have different versions; "
        "reboot, or reload the driver and restart the node"
    ),
}

_GPU = {
    NOT_SUPPORTED: "this GPU gives no readings",
    _NO_PERMISSION: "no permission to read this GPU; check the rights on its /dev/nvidia device",
    _INSUFFICIENT_POWER: "not enough power; check the GPU's power connectors",
    _IRQ_ISSUE: "the kernel gets no interrupts from this GPU; see dmesg",
    _GPU_IS_LOST: "the GPU is lost: it has fallen off the bus; reset it or reboot",
    _RESET_REQUIRED: "the GPU needs a reset before it can be used again",
    _OPERATING_SYSTEM: "the system blocks access to this GPU; give the container its device",
}


def source_problem(code: int) -> str:
    """Why NVML as a whole gives nothing."""
    return _SOURCE.get(code, f"NVML fails with error {code}; `nvidia-smi` may say more")


def gpu_problem(code: int) -> str:
    """What is wrong with one GPU."""
    return _GPU.get(code, f"NVML fails with error {code} on this GPU; `nvidia-smi` may say more")
