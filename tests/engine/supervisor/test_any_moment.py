"""Commands and cancellation at every turn of an actor's life: no process is ever lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.model import EngineState
from engine.supervisor.actor import EngineActor
from engine.supervisor.backoff import RestartPolicy
from tests.engine.supervisor.fakes import FakeProcess, FakeWorld, ImpatientClock, replica
from tests.support.wait_until import wait_until

TURNS = 90
"""A life of two launches with a crash between them takes fewer turns of the loop than this."""


def eventful(folder: Path) -> FakeWorld:
    """A world in which the first engine crashes while serving and the second stays."""
    world = FakeWorld(folder, ImpatientClock())
    world.policy = RestartPolicy(loop_failures=10)

    def crash_soon(process: FakeProcess) -> None:
        if len(world.launched) == 1:
            loop = asyncio.get_running_loop()

            def tick(left: int) -> None:
                if left:
                    loop.call_soon(tick, left - 1)
                elif process.running:
                    process.exit(1)

            tick(25)

    world.on_spawn = crash_soon
    return world


def living_and_recorded(world: FakeWorld) -> bool:
    """Every process that runs is one that a later node would find."""
    recorded = {pid for _, pid in world.recorder.started}
    open_launches = len(world.recorder.started) - len(world.recorder.ended)
    return all(process.pid in recorded for process in world.running) and open_launches >= len(world.running)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_life_has_two_launches_within_the_turns_tried(tmp_path: Path) -> None:
    world = eventful(tmp_path)
    actor = EngineActor(replica(), world.surroundings(), wanted=True)
    task = asyncio.create_task(actor.run())
    await turns(TURNS)
    assert world.recorder.order == ["started 1", "ready 1", "ended 1", "started 2", "ready 2"]
    assert actor.state is EngineState.READY
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize("order", ["stop", "restart", "shutdown", "start"])
async def test_an_order_at_any_turn(tmp_path: Path, order: str) -> None:
    for count in range(TURNS):
        world = eventful(tmp_path)
        actor = EngineActor(replica(), world.surroundings(), wanted=True)
        task = asyncio.create_task(actor.run())
        await turns(count)
        actor.command(order)  # type: ignore[arg-type]  # parametrize has no literals
        await wait_until(lambda t=task, a=actor: t.done() or a.settled)  # type: ignore[misc]
        if order in ("start", "restart"):
            await turns(TURNS)
            assert actor.state is EngineState.READY, count
            assert len(world.running) == 1, count
        else:
            assert actor.state is EngineState.STOPPED, count
            assert world.running == [], count
            assert len(world.recorder.ended) == len(world.recorder.started) == len(world.launched), count
        assert task.done() is (order == "shutdown"), count
        assert living_and_recorded(world), count
        assert all(probe.closed for probe in world.probes), count
        assert not world.lanes.busy(actor.replica.gpu_uuids), count
        task.cancel()
        await asyncio.wait({task})


async def test_cancellation_at_any_turn_leaves_only_what_is_on_record(tmp_path: Path) -> None:
    for count in range(TURNS):
        world = eventful(tmp_path)
        actor = EngineActor(replica(), world.surroundings(), wanted=True)
        task = asyncio.create_task(actor.run())
        await turns(count)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), count
        assert living_and_recorded(world), count
        assert not world.lanes.busy(actor.replica.gpu_uuids), count


async def test_two_orders_in_any_turns(tmp_path: Path) -> None:
    for count in range(0, TURNS, 2):
        for pause in (0, 1, 3, 7):
            world = eventful(tmp_path)
            actor = EngineActor(replica(), world.surroundings(), wanted=True)
            task = asyncio.create_task(actor.run())
            await turns(count)
            actor.command("restart")
            await turns(pause)
            actor.command("stop")
            await wait_until(lambda a=actor: a.settled)  # type: ignore[misc]
            assert actor.state is EngineState.STOPPED, (count, pause)
            assert world.running == [], (count, pause)
            task.cancel()
            await asyncio.wait({task})
