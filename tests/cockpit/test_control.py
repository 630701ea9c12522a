"""What operators ask of a node: over a real store and fleet, with engines that are not real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from cockpit.control import NodeControl
from cockpit.recording import HISTORY_LIMIT, StoreRecorder
from engine.api import schema
from engine.api.frames import FrameHub
from engine.backends.known_interpreters import KnownInterpreters
from engine.errors import EngineError, PlacementError, SpecError, StateError, UnknownTargetError
from engine.event_bus import EventBus
from engine.events import Actor, Event
from engine.gateway.server import Gateway
from engine.model import DeploymentSpec, GpuReading, NodeView, ReplicaSpec
from engine.supervisor.fleet import Fleet
from engine.supervisor.inbox import Order
from storage.store import Store, open_store
from tests.engine.api.support import frame
from tests.engine.supervisor.fakes import FakeWorld, replica
from tests.support.wait_until import wait_until

Verb = Literal["start", "stop", "restart"]
VERBS: tuple[Verb, ...] = ("start", "stop", "restart")
ADA = Actor("ada", 1000)
NODE = NodeView(name="n", pid=1, version="0", uptime_s=1.0, state_dir="/s")
GPUS = tuple(
    GpuReading(index=i, uuid=f"GPU-{i:04d}-0000", name="g", at_s=0.0, simulated=True) for i in range(4)
)


class Gpus:
    """Four GPUs, of which the last cannot be read."""

    simulated = True

    async def read(self) -> tuple[GpuReading, ...]:
        return (*GPUS[:3], msgspec.structs.replace(GPUS[3], problem="lost"))

    def problem(self) -> str | None:
        return None

    async def close(self) -> None:
        pass


class Recorder(StoreRecorder):
    """A real one that says in which order it is used, and may have lost its disk."""

    def __init__(self, store: Store, order: list[str]) -> None:
        super().__init__(store)
        self.order = order
        self.durable = True
        self.gate: asyncio.Event | None = None

    async def record_event(self, event: Event) -> tuple[Event, bool]:
        if self.gate is not None and event.kind.startswith("action."):
            self.order.append(f"waits {event.kind}")
            await self.gate.wait()
        kept, durable = await super().record_event(event)
        self.order.append(event.kind)
        return kept, durable and self.durable

    async def set_wanted(self, engines: Sequence[str], wanted: bool) -> None:
        await super().set_wanted(engines, wanted)
        self.order.append(f"wanted={wanted}")

    async def keep_deployment(self, deployment: DeploymentSpec) -> None:
        await super().keep_deployment(deployment)
        self.order.append("kept")

    async def forget_deployment(self, name: str) -> None:
        await super().forget_deployment(name)
        self.order.append("forgotten")


class WatchedFleet(Fleet):
    """A real one that says when it is used."""

    order_of: list[str]

    def order(self, names: Sequence[str], order: Order) -> None:  # type: ignore[override]
        self.order_of.append(f"ordered {order}")
        super().order(names, order)


@dataclass
class Desk:
    """A node without process, socket and GPUs."""

    control: NodeControl
    recorder: Recorder
    bus: EventBus
    fleet: WatchedFleet
    world: FakeWorld
    frames: FrameHub
    order: list[str]

    @property
    def names(self) -> list[str]:
        return [view.name for view in self.fleet.views()]


def _simulated(index: int) -> ReplicaSpec:
    """One of two engines on the first two GPUs."""
    placed = replica(f"qwen/{index}", gpus=(index,))
    deployment = msgspec.structs.replace(placed.deployment, backend="simulated", gpus=[0, 1])
    return msgspec.structs.replace(placed, deployment=deployment)


@asynccontextmanager
async def _desk(folder: Path, *, started: bool = True) -> AsyncIterator[Desk]:
    world, order, frames = FakeWorld(folder), list[str](), FrameHub()
    known = KnownInterpreters({}, "/python", "/root")
    async with open_store(folder / "c.db") as store:
        recorder = Recorder(store, order)
        bus = EventBus(recorder)
        gateway = Gateway(lambda: fleet.replicas(), world.clock)
        fleet = WatchedFleet(world.surroundings)
        fleet.order_of = order
        control = NodeControl(
            fleet=fleet,
            bus=bus,
            recorder=recorder,
            frames=frames,
            gateway=gateway,
            gpus=Gpus(),
            known=known,
            clock=world.clock,
            node=lambda: NODE,
            simulated=True,
            folder=folder,
        )
        if started:
            control.started.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bus.run())
            async with fleet:
                for index in range(2):
                    fleet.add(_simulated(index), wanted=True)
                await fleet.settle(["qwen/0", "qwen/1"])
                yield Desk(control, recorder, bus, fleet, world, frames, order)
            bus.close()
        await gateway.close()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with _desk(tmp_path) as desk:
        yield desk


def _launch(**values: object) -> schema.LaunchRequest:
    spec = {"name": "new", "model": "m/m", "backend": "simulated", "gpus": [2]} | values
    return schema.LaunchRequest(msgspec.convert(spec, DeploymentSpec), reason="more")


def _act(verb: Verb, target: str, **values: bool) -> schema.EngineAction:
    return schema.EngineAction(verb, target, reason="because", **values)


async def test_wish_and_event_are_kept_before_the_order_is_given(desk: Desk) -> None:
    reply = await desk.control.act(_act("stop", "qwen/0"), ADA)
    assert desk.order == ["wanted=False", "action.stop", "ordered stop"]
    assert (reply.durable, reply.engines) == (True, ("qwen/0",))
    (event,) = await desk.recorder.events(1, None, None)
    assert event == reply.event
    assert (event.kind, event.target, event.actor, event.reason) == (
        "action.stop",
        "qwen/0",
        ADA,
        "because",
    )
    assert await desk.recorder.wanted() == {"qwen/0": False}


@pytest.mark.parametrize(
    ("target", "engines"),
    [("qwen", ("qwen/0", "qwen/1")), ("gpu1", ("qwen/1",)), ("GPU-0000", ("qwen/0",))],
)
async def test_a_target_may_be_a_deployment_or_a_gpu(
    desk: Desk, target: str, engines: tuple[str, ...]
) -> None:
    reply = await desk.control.act(_act("restart", target, wait=True), ADA)
    assert reply.engines == engines
    assert {view.state.value for view in desk.fleet.views()} == {"ready"}
    assert len(desk.world.launched) == 2 + len(engines)


async def test_a_caller_that_waits_is_answered_when_it_is_done(desk: Desk) -> None:
    await desk.control.act(_act("stop", "qwen", wait=True), ADA)
    assert {view.state.value for view in desk.fleet.views()} == {"stopped"}
    assert desk.world.running == []


async def test_a_record_that_is_not_on_disk_is_said(desk: Desk) -> None:
    desk.recorder.durable = False
    assert not (await desk.control.act(_act("stop", "qwen/0"), ADA)).durable
    assert not (await desk.control.launch(_launch(), ADA)).durable
    assert not (await desk.control.remove("new", ADA)).durable


async def test_an_unknown_target_leaves_no_trace(desk: Desk) -> None:
    for verb in VERBS:
        with pytest.raises(UnknownTargetError, match="nothing"):
            await desk.control.act(schema.EngineAction(verb, "nothing"), ADA)
    assert desk.order == []
    assert await desk.recorder.wanted() == {}


async def test_a_launch_is_kept_before_its_engines_are_taken_on(desk: Desk) -> None:
    reply = await desk.control.launch(_launch(), ADA)
    assert desk.order[:3] == ["kept", "wanted=True", "action.launch"]
    assert reply.engines == ("new/0",)
    assert (reply.event.target, reply.event.reason) == ("new", "more")
    assert [spec.name for spec in await desk.recorder.deployments()] == ["new"]
    assert desk.names == ["qwen/0", "qwen/1", "new/0"]
    assert desk.fleet.specs()[-1].gpu_uuids == ("GPU-0002-0000",)


@pytest.mark.parametrize(
    ("wish", "error", "words"),
    [
        (_launch(name="qwen"), StateError, "qwen exists"),
        (_launch(backend="vllm"), SpecError, "cannot share a node"),
        (_launch(name="a/b"), SpecError, "no deployment name"),
        (_launch(name="gpu0"), SpecError, "gpu0"),
        (_launch(model=" "), SpecError, "model"),
        (_launch(gpus=[7]), PlacementError, "no GPU 7"),
        (_launch(gpus=[3]), PlacementError, "3"),
        (_launch(gpus=[2, 2]), EngineError, "twice"),
        (_launch(replicas=5), EngineError, "replicas"),
        (_launch(args={"max-model-len": 3}), SpecError, "vLLM's"),
        (_launch(start_timeout_s=-1.0), SpecError, "start_timeout_s"),
    ],
)
async def test_a_launch_that_is_refused_leaves_nothing_behind(
    desk: Desk, wish: schema.LaunchRequest, error: type[EngineError], words: str
) -> None:
    with pytest.raises(error, match=words):
        await desk.control.launch(wish, ADA)
    assert desk.order == []
    assert desk.names == ["qwen/0", "qwen/1"]
    assert await desk.recorder.deployments() == ()


async def test_of_two_launches_of_one_name_one_is_refused(desk: Desk) -> None:
    results = await asyncio.gather(
        desk.control.launch(_launch(), ADA), desk.control.launch(_launch(), ADA), return_exceptions=True
    )
    assert {type(result) for result in results} == {schema.ActionReply, StateError}
    assert desk.names == ["qwen/0", "qwen/1", "new/0"]


async def test_a_removed_deployment_is_forgotten_and_its_engines_end(desk: Desk) -> None:
    await desk.control.launch(_launch(), ADA)
    await desk.fleet.settle(["new/0"])
    reply = await desk.control.remove("new", ADA)
    assert reply.engines == ("new/0",)
    assert await desk.recorder.deployments() == ()
    assert "new/0" not in await desk.recorder.wanted()
    await wait_until(lambda: desk.names == ["qwen/0", "qwen/1"])
    assert len(desk.world.running) == 2
    await desk.control.launch(_launch(), ADA)  # its name is free again


@pytest.mark.parametrize(("name", "words"), [("nothing", "nothing"), ("qwen/0", "no deployment")])
async def test_only_a_deployment_can_be_removed(desk: Desk, name: str, words: str) -> None:
    with pytest.raises(UnknownTargetError, match=words):
        await desk.control.remove(name, ADA)
    assert desk.order == []


async def test_removing_twice_while_its_engines_drain_is_no_fault(desk: Desk) -> None:
    desk.world.traffic.open["qwen/0"] = 1
    await desk.control.remove("qwen", ADA)
    await desk.control.remove("qwen", ADA)
    desk.world.traffic.open.clear()
    await wait_until(lambda: desk.world.time.sleeping > 0)
    await desk.world.time.advance(60.0)
    await wait_until(lambda: desk.names == [])
    with pytest.raises(UnknownTargetError):
        await desk.control.remove("qwen", ADA)


async def test_an_action_waits_for_the_one_before_it(desk: Desk) -> None:
    desk.recorder.gate = asyncio.Event()
    first = asyncio.create_task(desk.control.remove("qwen", ADA))
    await wait_until(lambda: "waits action.remove" in desk.order)
    second = asyncio.create_task(desk.control.act(_act("start", "qwen/0"), ADA))
    down = asyncio.create_task(desk.control.shutdown(schema.ShutdownRequest(), ADA))
    await asyncio.sleep(0)
    desk.recorder.gate.set()
    await first
    with pytest.raises(StateError, match="stopped by ada"):
        await second
    await down
    assert "wanted=True" not in desk.order  # nothing is wanted of what was removed
    assert desk.world.running == []


async def test_shutdown_stops_every_engine_and_is_recorded_first(desk: Desk) -> None:
    before: list[int] = []

    async def note() -> None:
        before.append(len(desk.world.running))

    desk.control.before_stop = note
    await desk.control.shutdown(schema.ShutdownRequest("night"), ADA)
    assert before == [2]
    assert desk.control.stopped.is_set()
    assert desk.world.running == []
    (event,) = await desk.recorder.events(1, None, "node")
    assert (event.kind, event.actor, event.reason) == ("action.shutdown", ADA, "night")
    assert await desk.recorder.wanted() == {}  # the next start brings all of them back


async def test_a_second_shutdown_waits_for_the_first(desk: Desk) -> None:
    await asyncio.gather(
        desk.control.shutdown(schema.ShutdownRequest(), ADA),
        desk.control.shutdown(schema.ShutdownRequest(), Actor("bob")),
    )
    kinds = [event.kind for event in await desk.recorder.events(50, None, None)]
    assert kinds.count("action.shutdown") == 1
    assert desk.world.running == []


async def test_while_it_is_being_stopped_a_node_takes_no_orders(desk: Desk) -> None:
    desk.recorder.gate = asyncio.Event()
    down = asyncio.create_task(desk.control.shutdown(schema.ShutdownRequest(), ADA))
    await wait_until(lambda: "waits action.shutdown" in desk.order)
    asked = [
        asyncio.create_task(desk.control.act(_act("start", "qwen"), ADA)),
        asyncio.create_task(desk.control.launch(_launch(), ADA)),
        asyncio.create_task(desk.control.remove("qwen", ADA)),
    ]
    await asyncio.sleep(0)
    desk.recorder.gate.set()
    for task in asked:
        with pytest.raises(StateError, match="being stopped"):
            await task
    await down
    assert desk.world.running == []


async def test_what_is_asked_before_the_start_is_done_waits_for_it(tmp_path: Path) -> None:
    async with _desk(tmp_path, started=False) as desk:
        asked = asyncio.create_task(desk.control.launch(_launch(), ADA))
        for _ in range(5):
            await asyncio.sleep(0)
        assert desk.order == []
        desk.control.started.set()
        assert (await asked).engines == ("new/0",)


# The stream.


async def _event(desk: Desk, message: str) -> int:
    kept, _ = await desk.bus.record(Event(at_s=1.0, kind="test", target="x", message=message))
    assert kept.id is not None
    return kept.id


async def _read(desk: Desk, after: int | None, until: str) -> list[str]:
    """Types and messages, up to an event."""
    seen: list[str] = []
    async with asyncio.timeout(5.0), aclosing(desk.control.stream(after)) as lines:
        async for line in lines:
            seen.append(line.event.message if isinstance(line, schema.EventLine) else type(line).__name__)
            if seen[-1] == "HelloLine":
                asyncio.get_running_loop().call_soon(
                    lambda: desk.bus.post(Event(at_s=1.0, kind="test", target="x", message="live"))
                )
            if seen[-1] == until:
                break
    return seen


async def test_a_stream_goes_on_after_an_event_without_loss_or_repetition(desk: Desk) -> None:
    first = await _event(desk, "one")
    await _event(desk, "two")
    await _event(desk, "three")
    assert await _read(desk, first, "live") == ["HelloLine", "two", "three", "live"]


async def test_a_stream_without_an_event_to_go_on_after_is_of_now(desk: Desk) -> None:
    await _event(desk, "one")
    assert await _read(desk, None, "live") == ["HelloLine", "live"]


async def test_a_history_longer_than_one_answer_of_the_store_is_whole(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert HISTORY_LIMIT > 3
    monkeypatch.setattr("cockpit.recording.HISTORY_LIMIT", 3)
    first = await _event(desk, "first")
    for number in range(10):
        await _event(desk, str(number))
    assert await _read(desk, first, "live") == ["HelloLine", *map(str, range(10)), "live"]


async def test_events_during_the_history_are_told_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await _event(desk, "first")
    history = desk.recorder.events_after

    async def slow(event_id: int) -> tuple[Event, ...]:
        if event_id == first:
            await _event(desk, "meanwhile")  # in the history and in the live queue
        return await history(event_id)

    monkeypatch.setattr(desk.recorder, "events_after", slow)
    seen: list[str] = []
    async with asyncio.timeout(5.0), aclosing(desk.control.stream(first)) as lines:
        async for line in lines:
            if isinstance(line, schema.EventLine):
                seen.append(line.event.message)
                if seen[-1] == "end":
                    break
                desk.bus.post(Event(at_s=1.0, kind="test", target="x", message="end"))
    assert seen == ["meanwhile", "end"]


async def test_an_event_of_another_history_does_not_silence_the_stream(desk: Desk) -> None:
    await _event(desk, "one")
    assert await _read(desk, 10**6, "live") == ["HelloLine", "one", "live"]


async def test_a_slow_reader_misses_frames_and_no_events(desk: Desk) -> None:
    async with aclosing(desk.control.stream(None)) as lines:
        assert isinstance(await anext(lines), schema.HelloLine)
        messages: list[str] = []
        stamps: list[float] = []
        desk.frames.publish(frame(0.0))
        first = await anext(lines)
        assert isinstance(first, schema.FrameLine)
        for number in range(1, 101):  # it does not read meanwhile
            desk.frames.publish(frame(float(number)))
            await _event(desk, str(number))
        async with asyncio.timeout(5.0):
            while len(messages) < 100 or not stamps or stamps[-1] < 100.0:
                line = await anext(lines)
                if isinstance(line, schema.EventLine):
                    messages.append(line.event.message)
                elif isinstance(line, schema.FrameLine):
                    stamps.append(line.frame.at_s)
    assert messages == [str(number) for number in range(1, 101)]
    assert len(stamps) < 10
    assert stamps == sorted(stamps)


async def test_a_stream_that_is_left_leaves_no_task_and_no_subscription(desk: Desk) -> None:
    before = asyncio.all_tasks()
    async with aclosing(desk.control.stream(None)) as lines:
        await anext(lines)
        desk.frames.publish(frame(1.0))
        await anext(lines)
    await wait_until(lambda: asyncio.all_tasks() == before)
    assert desk.bus._subscriptions == []


async def test_the_last_line_says_who_stopped_the_node(desk: Desk) -> None:
    async def last() -> schema.StreamLine:
        lines = [line async for line in desk.control.stream(None)]
        return lines[-1]

    reading = asyncio.create_task(last())
    await wait_until(lambda: len(desk.bus._subscriptions) == 1)
    await desk.control.shutdown(schema.ShutdownRequest(), ADA)
    assert await reading == schema.StoppingLine(by="ada")


# Status and logs.


async def test_status_is_of_this_moment(desk: Desk) -> None:
    assert desk.control.status().gpus == ()
    desk.frames.publish(msgspec.structs.replace(frame(1.0), gpus=GPUS))
    status = desk.control.status()
    assert status.gpus == GPUS
    assert (status.node, status.simulated) == (NODE, True)
    assert [engine.name for engine in status.engines] == desk.names


async def _log_of(desk: Desk, path: Path) -> int:
    return await desk.recorder.launch_started(
        engine="qwen/0",
        at_s=1.0,
        pid=1,
        session_id=1,
        start_ticks=1,
        boot_id="b",
        log_path=str(path),
        argv=(),
    )


async def test_a_log_is_read_from_its_launchs_file(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "launch.log"
    path.write_text("one\ntwo\n")
    launch = await _log_of(desk, path)
    chunk = await desk.control.log("qwen/0", None, -4, 100)
    assert (chunk.launch_id, chunk.text, chunk.ended) == (launch, "two\n", False)
    path.unlink()
    with pytest.raises(UnknownTargetError, match="No such file"):
        await desk.control.log("qwen/0", launch, 0, 100)
    with pytest.raises(UnknownTargetError, match="no launch 99"):
        await desk.control.log("qwen/0", 99, 0, 100)
    with pytest.raises(UnknownTargetError, match="not been launched"):
        await desk.control.log("nothing", None, 0, 100)
