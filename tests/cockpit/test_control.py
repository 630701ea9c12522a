"""What operators ask of a node: over a real store and fleet, with engines that are not real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from engine.api import schema
from engine.errors import EngineError, PlacementError, SpecError, StateError, UnknownTargetError
from engine.events import Actor
from engine.model import DeploymentSpec
from tests.cockpit.desk import ADA, GPUS, NODE, Desk, desk_in
from tests.engine.api.support import frame
from tests.support.wait_until import wait_until

Verb = Literal["start", "stop", "restart"]
VERBS: tuple[Verb, ...] = ("start", "stop", "restart")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk_in(tmp_path) as desk:
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
    async with desk_in(tmp_path, started=False) as desk:
        asked = asyncio.create_task(desk.control.launch(_launch(), ADA))
        for _ in range(5):
            await asyncio.sleep(0)
        assert desk.order == []
        desk.control.started.set()
        assert (await asked).engines == ("new/0",)


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
    with pytest.raises(UnknownTargetError, match="qwen/1 has not been launched"):
        await desk.control.log("qwen/1", None, 0, 100)
    with pytest.raises(UnknownTargetError, match="is called nothing") as unknown:
        await desk.control.log("nothing", None, 0, 100)
    assert "qwen/1" in unknown.value.hint
