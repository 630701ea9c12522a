"""Power, temperature and traffic of a simulated GPU: pure formulas.

Activity of a GPU whose engine runs `n` of at most `w` sequences: `0` when none runs, else
`0.35 + 0.65 * n / w`. A decode step reads all weights however few sequences share it, so one alone
already keeps a good part of the chip busy; the window's end of the line is full load.

Power goes from the idle to the limit power with activity, with a lag of `POWER_LAG_S`. Temperature goes
from `AMBIENT_C` to `FULL_LOAD_C` with that power's share of the limit, with a lag of `THERMAL_LAG_S`.
Both lags are first order: over `dt` the gap to the target shrinks by `exp(-dt / lag)`, so that the path
does not depend on how often it is read.
"""

from __future__ import annotations

import math

import msgspec

AMBIENT_C = 30.0
"""Air at the card's inlet in a warm rack."""
FULL_LOAD_C = 78.0
"""Where an air-cooled H100 settles at its power limit; throttling begins at about 87."""
POWER_LAG_S = 0.8
"""NVML's power is a running mean of about a second."""
THERMAL_LAG_S = 25.0
"""Heat sink and vapour chamber: a minute or so until it has settled."""
_ACTIVITY_FLOOR = 0.35


class GpuState(msgspec.Struct, frozen=True):
    """What moves slowly."""

    utilisation_ratio: float
    power_w: float
    temperature_c: float


def activity(running: int, window: int) -> float:
    """Share of the time in which the GPU computes, 0 to 1."""
    if running <= 0:
        return 0.0
    return _ACTIVITY_FLOOR + (1.0 - _ACTIVITY_FLOOR) * min(1.0, running / max(1, window))


def resting(idle_w: float, limit_w: float) -> GpuState:
    """A GPU that has been idle for long."""
    return GpuState(0.0, idle_w, _settled_c(idle_w, limit_w))


def advance(state: GpuState, load: float, dt_s: float, idle_w: float, limit_w: float) -> GpuState:
    """The state after `dt_s` seconds at activity `load`."""
    target_w = idle_w + load * (limit_w - idle_w)
    return GpuState(
        utilisation_ratio=_approach(state.utilisation_ratio, load, dt_s, POWER_LAG_S),
        power_w=_approach(state.power_w, target_w, dt_s, POWER_LAG_S),
        temperature_c=_approach(state.temperature_c, _settled_c(target_w, limit_w), dt_s, THERMAL_LAG_S),
    )


def all_reduce_bytes_per_s(tokens_per_s: float, gpus: int) -> float:
    """What one GPU sends (and receives) over NVLink under tensor parallelism.

    Two all-reduces a layer over the hidden state, `2 * 48 layers * 2048 values * 2 bytes` a token (the
    shape of Qwen3-30B-A3B); a ring all-reduce moves `2 * (gpus - 1) / gpus` of its operand per GPU.
    """
    if gpus < 2:
        return 0.0
    return tokens_per_s * (2 * 48 * 2_048 * 2) * 2 * (gpus - 1) / gpus


def host_bytes_per_s(tokens_per_s: float) -> float:
    """PCIe traffic: block tables, sampled ids and launches, about 8 kB a token over a floor of polling."""
    return 40_000.0 + 8_000.0 * tokens_per_s


def _settled_c(power_w: float, limit_w: float) -> float:
    return AMBIENT_C + (FULL_LOAD_C - AMBIENT_C) * power_w / limit_w


def _approach(value: float, target: float, dt_s: float, lag_s: float) -> float:
    return target + (value - target) * math.exp(-max(0.0, dt_s) / lag_s)
