"""The GPUs of simulated machines."""

from __future__ import annotations

import msgspec


class SimulatedGpu(msgspec.Struct, frozen=True):
    """One GPU that is not there."""

    index: int
    uuid: str
    name: str
    numa_node: int
    memory_total_bytes: int
    idle_w: float
    limit_w: float
    linked: bool
    """Whether NVLink joins it to the others of its machine."""


H100X8 = tuple(
    SimulatedGpu(
        index=index,
        uuid=f"GPU-51310000-0000-4000-8000-{index:012x}",
        name="H100-80G (simulated)",
        numa_node=index // 4,
        memory_total_bytes=80 * 2**30,
        idle_w=72.0,
        limit_w=700.0,
        linked=True,
    )
    for index in range(8)
)
"""Eight SXM GPUs on two sockets, all linked."""

L40SX2 = tuple(
    SimulatedGpu(
        index=index,
        uuid=f"GPU-51320000-0000-4000-8000-{index:012x}",
        name="L40S-48G (simulated)",
        numa_node=0,
        memory_total_bytes=48 * 2**30,
        idle_w=36.0,
        limit_w=350.0,
        linked=False,
    )
    for index in range(2)
)
"""Two PCIe GPUs without NVLink."""
