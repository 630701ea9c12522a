"""Between the machine's nouns and the store's rows: events, launches, wishes and samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from engine.api.schema import Launch
from engine.events import Actor, Event, Severity
from engine.model import DeploymentSpec, EngineReading, EngineView, ExitCause, Frame, GpuReading
from engine.supervisor.leftovers import Leftover
from storage.records import (
    DeploymentRecord,
    EngineSample,
    EventRecord,
    GpuSample,
    LaunchEnd,
    LaunchRecord,
    LaunchStart,
)
from storage.store import Store

HISTORY_LIMIT = 10_000
"""Events that a stream catches up with at once."""


class StoreRecorder:
    """Satisfies `engine.ports.Recorder` and `Wishes` over the store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def problem(self) -> str | None:
        """Why nothing can be written, or None."""
        return self.store.problem

    async def record_event(self, event: Event) -> tuple[Event, bool]:
        """Keep an event: with its id, and whether it is on disk."""
        kept, durable = await self.store.add_event(
            EventRecord(
                at_s=event.at_s,
                kind=event.kind,
                target=event.target,
                message=event.message,
                actor_name=event.actor.name,
                actor_uid=event.actor.uid,
                severity=event.severity.value,
                reason=event.reason,
                outcome=event.outcome,
            )
        )
        return msgspec.structs.replace(event, id=kept.id), durable

    async def events(self, limit: int, before: int | None, target: str | None) -> tuple[Event, ...]:
        """Newest first."""
        return tuple(map(_event, await self.store.read.events(limit, before=before, target=target)))

    async def events_after(self, event_id: int) -> tuple[Event, ...]:
        """Those beyond an id, oldest first."""
        return tuple(map(_event, await self.store.read.events(HISTORY_LIMIT, after=event_id)))

    async def launch_started(
        self,
        *,
        engine: str,
        at_s: float,
        pid: int,
        session_id: int,
        start_ticks: int,
        boot_id: str,
        log_path: str,
        argv: Sequence[str],
    ) -> int:
        """Keep a launch; returns its id."""
        return await self.store.start_launch(
            LaunchStart(engine, at_s, pid, session_id, start_ticks, boot_id, log_path, tuple(argv))
        )

    async def launch_ready(self, launch_id: int, at_s: float) -> None:
        """The launch answers."""
        await self.store.launch_ready(launch_id, at_s)

    async def launch_ended(self, launch_id: int, at_s: float, cause: ExitCause) -> None:
        """The launch is over, and why."""
        await self.store.end_launch(
            launch_id,
            LaunchEnd(
                ended_at_s=at_s,
                cause_kind=cause.kind,
                cause_summary=cause.summary,
                cause_hint=cause.hint,
                exit_code=cause.exit_code,
                signal=cause.signal,
                last_error_lines=cause.last_error_lines,
                retryable=cause.retryable,
            ),
        )

    async def launch_lost(self, launch_id: int, at_s: float) -> None:
        """The launch of a node that died was found at the start of another."""
        cause = ExitCause(kind="unknown", summary="its node died; what was left of it has been ended")
        await self.launch_ended(launch_id, at_s, cause)

    async def launches(self, engine: str | None, limit: int) -> tuple[Launch, ...]:
        """Newest first."""
        return tuple(map(_launch, await self.store.read.launches(limit, engine)))

    async def launch(self, engine: str, launch_id: int | None) -> Launch | None:
        """One launch of an engine; its newest without an id."""
        if launch_id is None:
            found = await self.store.read.launches(1, engine)
            return _launch(found[0]) if found else None
        record = await self.store.read.launch(launch_id)
        return _launch(record) if record is not None and record.engine == engine else None

    async def leftovers(self) -> tuple[Leftover, ...]:
        """Launches that were never seen to end."""
        return tuple(
            Leftover(r.id, r.engine, r.session_id, r.start_ticks, r.boot_id)
            for r in await self.store.read.open_launches()
        )

    async def deployments(self) -> tuple[DeploymentSpec, ...]:
        """What ran last."""
        return tuple(
            msgspec.json.decode(record.spec, type=DeploymentSpec)
            for record in await self.store.read.deployments()
        )

    async def replace_deployments(self, deployments: Sequence[DeploymentSpec]) -> None:
        """Forget what ran, and keep these."""
        await self.store.replace_deployments([_deployment(spec) for spec in deployments])

    async def keep_deployment(self, deployment: DeploymentSpec) -> None:
        """One more deployment to bring back."""
        await self.store.add_deployment(_deployment(deployment))

    async def forget_deployment(self, name: str) -> None:
        """A deployment that is not to come back."""
        await self.store.forget_deployment(name)

    async def set_wanted(self, engines: Sequence[str], wanted: bool) -> None:
        """Whether these engines should be running."""
        await self.store.set_wanted(engines, wanted)

    async def wanted(self) -> dict[str, bool]:
        """Whether each known engine should be running."""
        return await self.store.read.wanted()

    async def setting(self, key: str) -> str | None:
        """A remembered choice."""
        return await self.store.read.setting(key)

    async def set_setting(self, key: str, value: str | None) -> None:
        """Remember a choice."""
        await self.store.set_setting(key, value)

    def record_frame(self, frame: Frame) -> None:
        """Keep a frame's samples; of simulated ones too, since the screens are the same."""
        self.store.add_samples(
            [_gpu_sample(gpu, frame.at_s) for gpu in frame.gpus],
            [_engine_sample(engine, frame.at_s) for engine in frame.engines],
        )


def _event(record: EventRecord) -> Event:
    return Event(
        at_s=record.at_s,
        kind=record.kind,
        target=record.target,
        message=record.message,
        actor=Actor(name=record.actor_name, uid=record.actor_uid),
        severity=Severity(record.severity),
        reason=record.reason,
        outcome=record.outcome,
        id=record.id,
    )


def _gpu_sample(gpu: GpuReading, at_s: float) -> GpuSample:
    return GpuSample(
        at_s=at_s,
        gpu_uuid=gpu.uuid,
        utilisation_ratio=gpu.utilisation_ratio,
        memory_used_bytes=gpu.memory_used_bytes,
        memory_total_bytes=gpu.memory_total_bytes,
        temperature_c=gpu.temperature_c,
        power_w=gpu.power_w,
        nvlink_tx_bytes_per_s=gpu.nvlink_tx_bytes_per_s,
        nvlink_rx_bytes_per_s=gpu.nvlink_rx_bytes_per_s,
        pcie_tx_bytes_per_s=gpu.pcie_tx_bytes_per_s,
        pcie_rx_bytes_per_s=gpu.pcie_rx_bytes_per_s,
    )


def _engine_sample(engine: EngineView, at_s: float) -> EngineSample:
    reading = engine.reading or EngineReading(at_s=at_s)
    return EngineSample(
        at_s=at_s,
        engine=engine.name,
        state=engine.state.value,
        in_flight=engine.in_flight,
        running=engine.running,
        waiting=engine.waiting,
        kv_used_ratio=engine.kv_used_ratio,
        generation_tokens_per_s=reading.generation_tokens_per_s,
        prompt_tokens_per_s=reading.prompt_tokens_per_s,
        requests_per_s=reading.requests_per_s,
        ttft_p95_s=reading.ttft_p95_s,
        itl_p95_s=reading.itl_p95_s,
        prefix_hit_ratio=reading.prefix_hit_ratio,
    )


def _deployment(spec: DeploymentSpec) -> DeploymentRecord:
    return DeploymentRecord(spec.name, msgspec.json.encode(spec).decode())


def _launch(record: LaunchRecord) -> Launch:
    end = record.end
    cause = None
    if end is not None:
        values = {
            "kind": end.cause_kind,
            "summary": end.cause_summary,
            "hint": end.cause_hint,
            "exit_code": end.exit_code,
            "signal": end.signal,
            "last_error_lines": end.last_error_lines,
            "retryable": end.retryable,
        }
        cause = msgspec.convert(values, ExitCause)
    return Launch(
        id=record.id,
        engine=record.engine,
        started_at_s=record.started_at_s,
        pid=record.pid,
        session_id=record.session_id,
        log_path=record.log_path,
        log_bytes=_size(record.log_path),
        ready_at_s=record.ready_at_s,
        ended_at_s=end.ended_at_s if end else None,
        cause=cause,
    )


def _size(path: str) -> int | None:
    try:
        return Path(path).stat().st_size
    except OSError:
        return None
