"""Rows, as structs. Times are UTC epoch seconds; None is unknown."""

from __future__ import annotations

import msgspec


class DeploymentRecord(msgspec.Struct, frozen=True):
    """A deployment to bring back."""

    name: str
    spec: str
    """JSON of the deployment, in the words of the config."""


class EventRecord(msgspec.Struct, frozen=True):
    """One thing that happened."""

    at_s: float
    kind: str
    target: str
    message: str
    actor_name: str
    severity: str
    actor_uid: int | None = None
    reason: str | None = None
    outcome: str | None = None
    id: int = 0
    """Given by the writer."""


class LaunchStart(msgspec.Struct, frozen=True):
    """A launch as it begins."""

    engine: str
    started_at_s: float
    pid: int
    session_id: int
    start_ticks: int
    boot_id: str
    log_path: str
    argv: tuple[str, ...]


class LaunchEnd(msgspec.Struct, frozen=True):
    """How a launch ended."""

    ended_at_s: float
    cause_kind: str
    cause_summary: str
    cause_hint: str = ""
    exit_code: int | None = None
    signal: str | None = None
    last_error_lines: tuple[str, ...] = ()
    retryable: bool = True


class LaunchRecord(msgspec.Struct, frozen=True):
    """A launch as it stands."""

    id: int
    engine: str
    started_at_s: float
    pid: int
    session_id: int
    start_ticks: int
    boot_id: str
    log_path: str
    ready_at_s: float | None
    end: LaunchEnd | None
    argv: tuple[str, ...] = ()


class ConversationValues(msgspec.Struct, frozen=True):
    """What a conversation is set to."""

    title: str
    model: str
    system_prompt: str
    temperature: float
    max_tokens: int


class MessageValues(msgspec.Struct, frozen=True):
    """One turn."""

    role: str
    content: str
    served_by: str | None = None
    ttft_s: float | None = None
    tokens_per_s: float | None = None
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None


class MessageRecord(MessageValues, frozen=True, kw_only=True):
    """One turn, kept."""

    id: int
    at_s: float


class ConversationRecord(ConversationValues, frozen=True, kw_only=True):
    """A saved chat."""

    id: int
    created_at_s: float
    updated_at_s: float
    messages: tuple[MessageRecord, ...] = ()


class GpuSample(msgspec.Struct, frozen=True):
    """A GPU at one tick."""

    at_s: float
    gpu_uuid: str
    utilisation_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    nvlink_tx_bytes_per_s: float | None = None
    nvlink_rx_bytes_per_s: float | None = None
    pcie_tx_bytes_per_s: float | None = None
    pcie_rx_bytes_per_s: float | None = None


class EngineSample(msgspec.Struct, frozen=True):
    """An engine at one tick."""

    at_s: float
    engine: str
    state: str
    in_flight: int | None = None
    running: int | None = None
    waiting: int | None = None
    kv_used_ratio: float | None = None
    generation_tokens_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    ttft_p95_s: float | None = None
    itl_p95_s: float | None = None
    prefix_hit_ratio: float | None = None
