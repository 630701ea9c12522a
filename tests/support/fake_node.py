"""A node in memory whose stream a test holds in its hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from cockpit.client import ClientError, NodeUnreachableError
from engine.api import schema
from engine.events import Actor, Event, Severity
from engine.model import (
    EngineReading,
    EngineState,
    EngineView,
    ExitCause,
    Frame,
    GatewayView,
    GpuReading,
    HostView,
    NodeView,
)
from tests.support.room_node import RoomNode

NOW_S = 1_767_276_131.0
"""2026-01-01 14:02:11 UTC: the frozen clock of snapshots."""
GIB = 2**30


class FakeNode(RoomNode):
    """`NodeApi` with a stream that says what the test sends.

    Conversations, chats and logs are those of `RoomNode`.
    """

    def __init__(self, frame: Frame | None = None, events: tuple[Event, ...] = ()) -> None:
        super().__init__()
        self.up = True
        """False: nothing listens."""
        self.past = list(events)
        """Known before the stream is opened, oldest first."""
        self.actions: list[schema.EngineAction] = []
        self.action_error: ClientError | None = None
        self.settings: dict[str, str] = {}
        self.shutdowns = 0
        self.closed = False
        self.streams = 0
        """How often the stream was opened."""
        self.latest = frame
        self._lines: asyncio.Queue[schema.StreamLine | ClientError] = asyncio.Queue()

    # What the test does.

    def send(self, frame: Frame) -> None:
        """The next frame."""
        self.latest = frame
        self._lines.put_nowait(schema.FrameLine(frame))

    def happen(self, event: Event) -> None:
        """An event, now."""
        self.past.append(event)
        self._lines.put_nowait(schema.EventLine(event))

    def lose(self, message: str = "the node went away") -> None:
        """The stream breaks off and nothing listens any more."""
        self.up = False
        self._lines.put_nowait(NodeUnreachableError(message, "start one with `cockpit up`"))

    def come_back(self) -> None:
        """Somebody listens again."""
        self.up = True

    def stop(self, by: str) -> None:
        """An operator stops the node."""
        self.up = False
        self._lines.put_nowait(schema.StoppingLine(by=by))

    # What the interface asks.

    async def stream(self, after_event: int | None = None) -> AsyncIterator[schema.StreamLine]:
        self._check_up()
        self.streams += 1
        frame = self.latest
        yield schema.HelloLine(api_version=schema.API_VERSION, node=frame.node if frame else node_view())
        for event in self.past:
            if after_event is not None and (event.id or 0) > after_event:
                yield schema.EventLine(event)
        if frame is not None:
            yield schema.FrameLine(frame)
        while True:
            line = await self._lines.get()
            if isinstance(line, ClientError):
                raise line
            yield line
            if isinstance(line, schema.StoppingLine):
                return

    async def events(
        self, limit: int = 200, before: int | None = None, target: str | None = None
    ) -> tuple[Event, ...]:
        self._check_up()
        return tuple(reversed(self.past))[:limit]

    async def act(self, action: schema.EngineAction) -> schema.ActionReply:
        self._check_up()
        if self.action_error is not None:
            raise self.action_error
        self.actions.append(action)
        event = Event(
            at_s=NOW_S,
            kind=f"action.{action.action}",
            target=action.target,
            message=f"{action.action} {action.target}",
        )
        return schema.ActionReply(event=event, durable=True, engines=(action.target,))

    async def setting(self, key: str) -> str | None:
        self._check_up()
        return self.settings.get(key)

    async def set_setting(self, key: str, value: str | None) -> None:
        self._check_up()
        if value is None:
            self.settings.pop(key, None)
        else:
            self.settings[key] = value

    async def shutdown(self, reason: str | None = None) -> None:
        self._check_up()
        self.shutdowns += 1

    async def close(self) -> None:
        self.closed = True

    def _check_up(self) -> None:
        if not self.up:
            raise NodeUnreachableError("no node is running, or it went away", "start one with `cockpit up`")


def node_view(
    config: str | None = "sim:h100x8",
    *,
    storage_problem: str | None = None,
    gpu_problem: str | None = None,
) -> NodeView:
    """A node called lab-7."""
    return NodeView(
        name="lab-7",
        pid=4711,
        version="0.1.0",
        uptime_s=8_040.0,
        state_dir="/home/lab/state",
        config=config,
        storage_problem=storage_problem,
        gpu_problem=gpu_problem,
    )


def gpu(index: int, *, used: float = 0.0, memory_gib: float = 0.0, **changes: object) -> GpuReading:
    """An H100 with these readings."""
    fields: dict[str, object] = {
        "simulated": True,
        "numa_node": index // 4,
        "utilisation_ratio": used,
        "memory_used_bytes": int(memory_gib * GIB),
        "memory_total_bytes": 80 * GIB,
        "temperature_c": 33.0 + used * 38,
        "power_w": 71.0 + used * 600,
        "power_limit_w": 700.0,
        "nvlink_tx_bytes_per_s": used * 45e9,
        "nvlink_rx_bytes_per_s": used * 41e9,
        "pcie_tx_bytes_per_s": used * 3.3e9,
        "pcie_rx_bytes_per_s": used * 1.2e9,
    } | changes
    return GpuReading(
        index=index,
        uuid=f"GPU-{index:08x}",
        name="NVIDIA H100 80GB HBM3",
        at_s=NOW_S,
        **fields,  # type: ignore[arg-type]
    )


def engine(
    name: str,
    state: EngineState = EngineState.READY,
    gpus: tuple[int, ...] = (),
    *,
    running: int | None = None,
    waiting: int | None = None,
    kv: float | None = None,
    tokens_per_s: float | None = None,
    ttft_s: float | None = None,
    itl_s: float | None = None,
    **changes: object,
) -> EngineView:
    """An engine on these GPUs."""
    deployment = name.partition("/")[0]
    answers = state in (EngineState.READY, EngineState.DRAINING)
    reading = EngineReading(
        at_s=NOW_S,
        running=running,
        waiting=waiting,
        kv_used_ratio=kv,
        generation_tokens_per_s=tokens_per_s,
        ttft_p95_s=ttft_s,
        itl_p95_s=itl_s,
        max_num_seqs=64,
    )
    fields: dict[str, object] = {
        "deployment": deployment,
        "backend": "simulated",
        "simulated": True,
        "model": {"qwen": "Qwen/Qwen3-8B", "moe": "Qwen/Qwen3-30B-A3B"}.get(deployment, "tiny"),
        "pid": 5_000 + len(name) if answers else None,
        "session_id": 5_000 + len(name) if answers else None,
        "gpu_uuids": tuple(f"GPU-{index:08x}" for index in gpus),
        "gpu_indexes": gpus,
        "endpoint": f"unix:/run/user/1000/cockpit/engines/{name.replace('/', '-')}.sock" if answers else None,
        "since_s": NOW_S - 3_600.0,
        "launch_id": 1,
        "in_flight": running or 0,
        "running": running,
        "waiting": waiting,
        "kv_used_ratio": kv,
        "reading": reading if answers else None,
    } | changes
    return EngineView(name=name, state=state, **fields)  # type: ignore[arg-type]


def frame_of(
    engines: tuple[EngineView, ...],
    gpus: tuple[GpuReading, ...] = (),
    *,
    at_s: float = NOW_S,
    node: NodeView | None = None,
    simulated: bool | None = None,
) -> Frame:
    """A frame of these."""
    return Frame(
        at_s=at_s,
        node=node or node_view(),
        simulated=any(one.simulated for one in engines) if simulated is None else simulated,
        gpus=gpus,
        engines=engines,
        gateway=GatewayView(
            listen="127.0.0.1:8000", in_flight=96, requests_total=4_210, requests_per_s=12.4, ttft_p95_s=0.182
        ),
        host=HostView(cpu_used_ratio=0.2, memory_used_bytes=40 * GIB, memory_total_bytes=512 * GIB),
    )


def busy_frame(at_s: float = NOW_S) -> Frame:
    """Eight GPUs: engines in every state that an operator meets on a bad day."""
    gpus = (
        gpu(0, used=0.87, memory_gib=61.2),
        gpu(1, used=0.91, memory_gib=61.2),
        gpu(2, used=0.12, memory_gib=61.0),
        gpu(3, used=0.0, memory_gib=0.4),
        gpu(4, used=0.96, memory_gib=74.1),
        gpu(5, used=0.78, memory_gib=74.1, temperature_c=84.0, problem="throttled by heat, 84 °C"),
        gpu(6, used=0.04, memory_gib=9.7),
        gpu(7),
    )
    crash = ExitCause(
        kind="out_of_memory",
        summary="out of GPU memory while allocating the KV cache",
        hint="lower gpu-memory-utilization or max-model-len",
        exit_code=1,
        last_error_lines=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.",
            "RuntimeError: Engine core initialization failed.",
        ),
    )
    engines = (
        engine("qwen/0", gpus=(0,), running=24, waiting=3, kv=0.58, tokens_per_s=512.0, ttft_s=0.171),
        engine("qwen/1", gpus=(1,), running=26, waiting=1, kv=0.63, tokens_per_s=530.0, ttft_s=0.180),
        engine(
            "qwen/2",
            EngineState.DRAINING,
            (2,),
            running=4,
            waiting=0,
            kv=0.11,
            tokens_per_s=70.0,
            ttft_s=0.16,
        ),
        engine("qwen/3", EngineState.BACKOFF, (3,), retry_at_s=at_s + 12.0, restarts=2, last_exit=crash),
        engine("moe/0", gpus=(4, 5), running=40, waiting=12, kv=0.81, tokens_per_s=880.0, ttft_s=0.240),
        engine("tiny/0", EngineState.STARTING, (6,), progress="loading weights 42%", since_s=at_s - 8.0),
    )
    return frame_of(engines, gpus, at_s=at_s)


def calm_frame(at_s: float = NOW_S) -> Frame:
    """Two GPUs, one engine each, nothing wrong, nothing simulated."""
    gpus = (
        gpu(0, used=0.4, memory_gib=61.2, simulated=False),
        gpu(1, used=0.5, memory_gib=61.2, simulated=False),
    )
    real: dict[str, Any] = {"ttft_s": 0.1, "simulated": False, "backend": "vllm"}
    return frame_of(
        (
            engine("qwen/0", gpus=(0,), running=2, waiting=0, kv=0.2, tokens_per_s=120.0, **real),
            engine("qwen/1", gpus=(1,), running=3, waiting=0, kv=0.3, tokens_per_s=140.0, **real),
        ),
        gpus,
        at_s=at_s,
        node=node_view(config="/etc/cockpit.toml"),
    )


def past_events() -> tuple[Event, ...]:
    """A few of each severity, oldest first."""
    anna = Actor(name="anna", uid=1000)
    return (
        Event(at_s=NOW_S - 1_314.0, kind="node.started", target="node", message="node started", id=1),
        Event(
            at_s=NOW_S - 900.0, kind="engine.ready", target="qwen/1", message="qwen/1 ready after 41 s", id=2
        ),
        Event(
            at_s=NOW_S - 249.0,
            kind="engine.exited",
            target="qwen/3",
            message="qwen/3 ended: out of GPU memory while allocating the KV cache",
            severity=Severity.ERROR,
            id=3,
        ),
        Event(
            at_s=NOW_S - 40.0,
            kind="action.stop",
            target="qwen/2",
            message="stop qwen/2",
            actor=anna,
            reason="maintenance",
            severity=Severity.WARNING,
            id=4,
        ),
    )
