"""The transition table of `engine.supervisor.actor`: every state under every command."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.backends.plan import LaunchPlan
from engine.model import Endpoint, EngineState
from engine.supervisor.actor import EngineActor
from engine.supervisor.backoff import RestartPolicy
from engine.supervisor.inbox import Order
from engine.supervisor.surroundings import Running
from tests.engine.supervisor.fakes import FIRST_PID, FakeProcess, FakeWorld, living, reach, replica
from tests.support.wait_until import wait_until

STOPPED, STARTING, READY = EngineState.STOPPED, EngineState.STARTING, EngineState.READY
BAD_ARGUMENT = "api_server.py: error: unrecognized arguments: --bogus=1"


async def bring(actor: EngineActor, world: FakeWorld, state: EngineState) -> None:
    """From a fresh actor, wanted unless it is to be stopped, to `state`."""
    match state:
        case EngineState.STOPPED:
            await wait_until(lambda: actor.settled)
        case EngineState.STARTING:
            world.missing = "its port does not answer yet"
            await wait_until(lambda: bool(world.probes))
        case EngineState.DRAINING:
            world.traffic.open["qwen/0"] = 1
            await reach(actor, READY)
            actor.command("stop")
        case EngineState.STOPPING:
            world.deaf = True
            await reach(actor, READY)
            actor.command("stop")
        case EngineState.BACKOFF:
            await reach(actor, READY)
            world.launched[-1].exit(1)
        case EngineState.FAILED:
            world.missing = "its port does not answer yet"
            await wait_until(lambda: bool(world.probes))
            world.launched[-1].exit(2, BAD_ARGUMENT)
        case EngineState.QUARANTINED:  # the world's policy allows one failure
            await reach(actor, READY)
            world.launched[-1].exit(1)
        case EngineState.READY:
            pass
    await reach(actor, state)
    world.missing = None


async def release(world: FakeWorld) -> None:
    """Let go of what held the actor in draining or stopping."""
    world.deaf = False
    world.traffic.open.clear()
    for process in world.launched[:1]:
        if process.deaf and process.running:
            process.deaf = False
            process.exit(0)
    await world.time.advance(1.0)


EXPECTED: dict[tuple[str, Order], tuple[EngineState, int]] = {
    ("stopped", "start"): (READY, 1),
    ("stopped", "stop"): (STOPPED, 0),
    ("stopped", "restart"): (READY, 1),
    ("starting", "start"): (READY, 1),
    ("starting", "stop"): (STOPPED, 1),
    ("starting", "restart"): (READY, 2),
    ("ready", "start"): (READY, 1),
    ("ready", "stop"): (STOPPED, 1),
    ("ready", "restart"): (READY, 2),
    ("draining", "start"): (READY, 2),
    ("draining", "stop"): (STOPPED, 1),
    ("draining", "restart"): (READY, 2),
    ("stopping", "start"): (READY, 2),
    ("stopping", "stop"): (STOPPED, 1),
    ("stopping", "restart"): (READY, 2),
    ("backoff", "start"): (READY, 2),
    ("backoff", "stop"): (STOPPED, 1),
    ("backoff", "restart"): (READY, 2),
    ("failed", "start"): (READY, 2),
    ("failed", "stop"): (STOPPED, 1),
    ("failed", "restart"): (READY, 2),
    ("quarantined", "start"): (READY, 2),
    ("quarantined", "stop"): (STOPPED, 1),
    ("quarantined", "restart"): (READY, 2),
}
"""State and command → where it ends, and how many launches there have been by then."""


@pytest.mark.parametrize(("state", "order"), EXPECTED)
async def test_state_under_command(tmp_path: Path, state: str, order: Order) -> None:
    world = FakeWorld(tmp_path)
    if state == "quarantined":
        world.policy = RestartPolicy(loop_failures=1)
    async with living(world, wanted=state != "stopped") as (actor, _):
        await bring(actor, world, EngineState(state))

        actor.command(order)
        assert not actor.settled, "an order that was not looked at yet is not carried out"
        await release(world)
        await wait_until(lambda: actor.settled)

        assert (actor.state, len(world.launched)) == EXPECTED[state, order]
        assert len(world.running) == (actor.state is READY)
        assert world.kinds.count("engine.launched") == len(world.launched)
        assert all(probe.closed for probe in world.probes)
        assert actor.view().retry_at_s is None
        assert actor.view().progress is None
        assert actor.routed().accepts is (actor.state is READY)


@pytest.mark.parametrize("state", [s.value for s in EngineState])
async def test_shutdown_ends_the_actor_from_every_state(tmp_path: Path, state: str) -> None:
    world = FakeWorld(tmp_path)
    if state == "quarantined":
        world.policy = RestartPolicy(loop_failures=1)
    async with living(world, wanted=state != "stopped") as (actor, task):
        await bring(actor, world, EngineState(state))
        actor.command("shutdown")
        await release(world)
        await asyncio.wait_for(task, 5.0)

        assert actor.state is STOPPED
        assert world.running == []
        assert len(world.recorder.ended) == len(world.launched)


async def test_an_engine_that_ended_takes_no_requests_while_its_remains_are_cleared(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    seen: list[tuple[str, bool]] = []
    spec = replica()
    actor = EngineActor(
        spec,
        world.surroundings(lambda: seen.append((actor.state.value, actor.routed().accepts))),
        wanted=True,
    )
    task = asyncio.create_task(actor.run())
    try:
        await reach(actor, READY)
        world.launched[0].exit(0)
        await reach(actor, EngineState.BACKOFF)
    finally:
        task.cancel()
        await asyncio.wait({task})
    assert seen == [("starting", False), ("ready", True), ("stopping", False), ("backoff", False)]


async def test_orders_queue_up_while_it_stops(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.deaf = True
    async with living(world) as (actor, _):
        await reach(actor, READY)
        for order in ("stop", "start", "stop"):
            actor.command(order)
        await reach(actor, EngineState.STOPPING)
        await release(world)
        await wait_until(lambda: actor.settled)
        assert actor.state is STOPPED
        assert world.running == []


async def test_restart_ends_the_old_launch_before_the_new_one_begins(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    running_at_spawn: list[int] = []
    world.on_spawn = lambda process: running_at_spawn.append(len(world.running))
    async with living(world) as (actor, _):
        await reach(actor, READY)
        actor.command("restart")
        await wait_until(lambda: actor.settled and len(world.launched) == 2)

    assert running_at_spawn == [1, 1]
    assert world.recorder.order == ["started 1", "ready 1", "ended 1", "started 2", "ready 2"]
    assert world.recorder.ended[0][1].kind == "requested"
    assert world.kinds == [
        "engine.launched",
        "engine.ready",
        "engine.stopped",
        "engine.launched",
        "engine.ready",
    ]


async def test_every_launch_gets_a_key_and_a_generation_of_its_own(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with living(world) as (actor, _):
        await reach(actor, READY)
        first = actor.routed()
        actor.command("restart")
        await wait_until(lambda: actor.settled and len(world.launched) == 2)
        second = actor.routed()

    keys = [process.plan.env["VLLM_API_KEY"] for process in world.launched]
    assert keys == [first.api_key, second.api_key]
    assert len(set(keys)) == 2
    assert min(map(len, keys)) >= 32
    assert second.generation > first.generation


async def test_a_never_started_engine_is_known_to_the_gateway_and_takes_nothing(tmp_path: Path) -> None:
    actor = EngineActor(replica(), FakeWorld(tmp_path).surroundings(), wanted=False)
    routed = actor.routed()
    assert (routed.served_name, routed.model, routed.accepts) == ("qwen", "acme/tiny", False)
    assert actor.scraped() is None


async def test_metrics_are_read_while_ready_and_draining(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with living(world) as (actor, _):
        await reach(actor, READY)
        scraped = actor.scraped()
        assert scraped is not None
        endpoint, generation = scraped
        assert endpoint.uds == str(tmp_path / "run" / "qwen-0.sock")
        assert generation == actor.routed().generation
        world.traffic.open["qwen/0"] = 1
        actor.command("stop")
        await reach(actor, EngineState.DRAINING)
        assert actor.scraped() == scraped
        await release(world)
        await reach(actor, STOPPED)
        assert actor.scraped() is None
        assert actor.view().endpoint is None


def test_the_fake_process_satisfies_the_protocol(tmp_path: Path) -> None:
    plan = LaunchPlan(argv=(), env={}, endpoint=Endpoint(), served_name="", model_name="")
    running: Running = FakeProcess(FIRST_PID, plan, tmp_path / "log")
    assert running.returncode() is None
