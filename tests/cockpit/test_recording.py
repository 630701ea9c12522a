"""Machine's nouns through the store and back, on a real file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from cockpit.recording import StoreRecorder
from engine.events import Actor, Event, Severity
from engine.model import (
    DeploymentSpec,
    EngineReading,
    EngineState,
    EngineView,
    ExitCause,
    Frame,
    GatewayView,
    GpuReading,
    HostView,
    NodeView,
    SimulatedEngine,
)
from storage.store import open_store

EVENT = Event(
    at_s=1.5,
    kind="action.stop",
    target="a/0",
    message="stop a/0",
    actor=Actor("ada", 1000),
    severity=Severity.WARNING,
    reason="because",
    outcome="done",
)
CAUSE = ExitCause(
    kind="out_of_memory",
    summary="ran out",
    hint="less",
    exit_code=1,
    signal="SIGKILL",
    last_error_lines=("one", "two"),
    retryable=False,
)
SPEC = DeploymentSpec(
    name="a",
    model="m/m",
    gpus=[[0, 1], "GPU-x"],
    args={"max-model-len": 3, "flag": True, "table": {"k": 1.5}, "list": ["x", 2]},
    env={"A": "b"},
    simulated=SimulatedEngine(faults=["ignore-sigterm"]),
)


@pytest.fixture
async def recorder(tmp_path: Path) -> AsyncIterator[StoreRecorder]:
    async with open_store(tmp_path / "c.db") as store:
        yield StoreRecorder(store)


async def _launch(recorder: StoreRecorder, engine: str = "a/0", log: str = "/nowhere/log") -> int:
    return await recorder.launch_started(
        engine=engine,
        at_s=1.0,
        pid=11,
        session_id=12,
        start_ticks=13,
        boot_id="b",
        log_path=log,
        argv=("x", "y"),
    )


async def test_an_event_comes_back_as_it_was_with_its_id(recorder: StoreRecorder) -> None:
    kept, durable = await recorder.record_event(EVENT)
    assert durable
    assert kept == msgspec.structs.replace(EVENT, id=kept.id)
    assert await recorder.events(10, None, None) == (kept,)
    assert recorder.problem is None


async def test_events_are_asked_by_target_and_from_either_end(recorder: StoreRecorder) -> None:
    ids = []
    for target in ("a/0", "a", "b/0", "a/1"):
        kept, _ = await recorder.record_event(msgspec.structs.replace(EVENT, target=target))
        ids.append(kept.id)
    assert [e.id for e in await recorder.events(2, None, None)] == ids[:1:-1]
    assert [e.id for e in await recorder.events(9, ids[2], None)] == [ids[1], ids[0]]
    assert [e.target for e in await recorder.events(9, None, "a")] == ["a/1", "a", "a/0"]
    assert [e.id for e in await recorder.events_after(ids[1] or 0)] == ids[2:]


async def test_a_launch_is_kept_from_its_start_to_its_cause(recorder: StoreRecorder, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"12345")
    number = await _launch(recorder, log=str(log))
    (begun,) = await recorder.launches(None, 10)
    assert (begun.engine, begun.pid, begun.session_id, begun.log_bytes) == ("a/0", 11, 12, 5)
    assert begun.ready_at_s is begun.ended_at_s is None
    assert begun.cause is None
    await recorder.launch_ready(number, 2.0)
    await recorder.launch_ended(number, 3.0, CAUSE)
    log.unlink()
    ended = await recorder.launch("a/0", None)
    assert ended is not None
    assert (ended.ready_at_s, ended.ended_at_s, ended.cause, ended.log_bytes) == (2.0, 3.0, CAUSE, None)


async def test_a_launch_is_found_by_its_own_engine_only(recorder: StoreRecorder) -> None:
    first, second = await _launch(recorder), await _launch(recorder)
    other = await _launch(recorder, "b/0")
    newest = await recorder.launch("a/0", None)
    assert newest is not None
    assert newest.id == second
    older = await recorder.launch("a/0", first)
    assert older is not None
    assert older.id == first
    assert await recorder.launch("a/0", other) is None
    assert await recorder.launch("c/0", None) is None
    assert [launch.id for launch in await recorder.launches("a/0", 10)] == [second, first]


async def test_launches_that_were_not_seen_to_end_are_left_over_once(recorder: StoreRecorder) -> None:
    lost, ended = await _launch(recorder), await _launch(recorder)
    await recorder.launch_ended(ended, 2.0, CAUSE)
    (left,) = await recorder.leftovers()
    assert (left.launch_id, left.engine, left.session_id, left.start_ticks, left.boot_id) == (
        lost,
        "a/0",
        12,
        13,
        "b",
    )
    await recorder.launch_lost(lost, 4.0)
    assert await recorder.leftovers() == ()
    found = await recorder.launch("a/0", lost)
    assert found is not None
    assert found.cause is not None
    assert "node died" in found.cause.summary


async def test_deployments_come_back_whole_and_in_order(recorder: StoreRecorder) -> None:
    other = DeploymentSpec(name="Z", model="z/z")
    await recorder.replace_deployments([SPEC, other])
    third = DeploymentSpec(name="c", model="c/c")
    await recorder.keep_deployment(third)
    assert await recorder.deployments() == (SPEC, other, third)
    await recorder.forget_deployment("Z")
    assert await recorder.deployments() == (SPEC, third)
    await recorder.replace_deployments([other])
    assert await recorder.deployments() == (other,)


async def test_a_removed_deployment_takes_its_wishes_along(recorder: StoreRecorder) -> None:
    await recorder.keep_deployment(SPEC)
    await recorder.set_wanted(["a/0", "a/1", "ab/0"], False)
    await recorder.set_wanted(["a/1"], True)
    assert await recorder.wanted() == {"a/0": False, "a/1": True, "ab/0": False}
    await recorder.forget_deployment("a")
    assert await recorder.wanted() == {"ab/0": False}


async def test_settings_are_remembered_and_forgotten(recorder: StoreRecorder) -> None:
    await recorder.set_setting("theme", "night")
    await recorder.set_setting("theme", "paper")
    assert await recorder.setting("theme") == "paper"
    await recorder.set_setting("theme", None)
    assert await recorder.setting("theme") is None


async def test_all_of_it_outlives_the_store(tmp_path: Path) -> None:
    async with open_store(tmp_path / "c.db") as store:
        recorder = StoreRecorder(store)
        kept, _ = await recorder.record_event(EVENT)
        await recorder.keep_deployment(SPEC)
        await recorder.set_wanted(["a/0"], False)
    async with open_store(tmp_path / "c.db") as store:
        again = StoreRecorder(store)
        assert await again.events(9, None, None) == (kept,)
        assert await again.deployments() == (SPEC,)
        assert await again.wanted() == {"a/0": False}
        later, _ = await again.record_event(EVENT)
        assert (later.id or 0) > (kept.id or 0)


async def test_a_frame_is_kept_as_one_row_for_each_gpu_and_engine(tmp_path: Path) -> None:
    gpu = GpuReading(index=0, uuid="GPU-0", name="g", at_s=5.0, power_w=300.0)
    reading = EngineReading(at_s=5.0, generation_tokens_per_s=42.0, ttft_p95_s=0.2)
    engine = EngineView(
        name="a/0",
        deployment="a",
        state=EngineState.READY,
        backend="simulated",
        simulated=True,
        model="m",
        in_flight=3,
        running=2,
        reading=reading,
    )
    silent = msgspec.structs.replace(engine, name="a/1", reading=None, running=None)
    node = NodeView(name="n", pid=1, version="0", uptime_s=0.0, state_dir="/s")
    frame = Frame(
        at_s=5.0,
        node=node,
        simulated=True,
        gpus=(gpu,),
        engines=(engine, silent),
        gateway=GatewayView(listen=None),
        host=HostView(),
    )
    path = tmp_path / "c.db"
    async with open_store(path, now=lambda: 6.0) as store:
        StoreRecorder(store).record_frame(frame)
    async with open_store(path, now=lambda: 6.0) as store:
        (power,) = await store.read.gpu_samples("GPU-0", 0.0, 10.0)
        assert (power.at_s, power.power_w, power.utilisation_ratio) == (5.0, 300.0, None)
        (row,) = await store.read.engine_samples("a/0", 0.0, 10.0)
        assert (row.state, row.in_flight, row.running) == ("ready", 3, 2)
        assert (row.generation_tokens_per_s, row.ttft_p95_s) == (42.0, 0.2)
        (empty,) = await store.read.engine_samples("a/1", 0.0, 10.0)
        assert empty.running is empty.generation_tokens_per_s is None  # unknown is no zero
