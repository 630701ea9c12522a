from __future__ import annotations

import asyncio
from pathlib import Path

from engine.model import EngineState
from engine.supervisor.actor import WAITS_FOR_GPU
from engine.supervisor.lanes import StartLanes
from tests.engine.supervisor.fakes import FakeWorld, living, reach, replica
from tests.support.wait_until import wait_until

NOT_YET = "its port does not answer yet"


async def test_engines_on_one_gpu_start_one_after_the_other(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.missing = NOT_YET
    async with living(world, replica("a/0")) as (first, _):
        await wait_until(lambda: len(world.launched) == 1)
        async with living(world, replica("b/0")) as (second, _):
            await reach(second, EngineState.STARTING)
            await world.time.advance(5.0)
            assert second.view().progress == WAITS_FOR_GPU
            assert len(world.launched) == 1
            world.missing = None
            await world.time.advance(1.0)
            await reach(first, EngineState.READY)
            await reach(second, EngineState.READY)
    assert world.recorder.order == ["started 1", "ready 1", "started 2", "ready 2"]


async def test_the_wait_for_a_turn_is_no_part_of_the_start(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.missing = NOT_YET
    async with (
        living(world, replica("a/0", start_timeout_s=500.0)),
        living(world, replica("b/0", start_timeout_s=10.0)) as (second, _),
    ):
        await wait_until(lambda: len(world.launched) == 1)
        await world.time.advance(100.0)
        assert second.state is EngineState.STARTING
        world.missing = None
        await world.time.advance(1.0)
        await reach(second, EngineState.READY)
    took = [event.message for event in world.events if event.kind == "engine.ready"]
    assert took[0].startswith("ready after 10")
    assert took[1] in ("ready after 0.0 s", "ready after 1.0 s")


async def test_a_stop_while_waiting_for_the_turn_launches_nothing(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.missing = NOT_YET
    async with living(world, replica("a/0")):
        await wait_until(lambda: len(world.launched) == 1)
        async with living(world, replica("b/0")) as (second, _):
            await wait_until(lambda: second.view().progress == WAITS_FOR_GPU)
            second.command("stop")
            await reach(second, EngineState.STOPPED)
    assert len(world.launched) == 1


async def test_a_failed_start_keeps_its_turn_until_nothing_of_it_is_left(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.missing = NOT_YET
    world.deaf = True
    running_at_spawn: list[int] = []
    world.on_spawn = lambda process: running_at_spawn.append(len(world.running))
    async with (
        living(world, replica("a/0", start_timeout_s=10.0)) as (first, _),
        living(world, replica("b/0")),
    ):
        await wait_until(lambda: len(world.launched) == 1)
        await world.time.advance(11.0)
        await reach(first, EngineState.STOPPING)
        await wait_until(lambda: world.launched[0].terminations == 1)
        assert len(world.launched) == 1
        world.deaf = False
        world.launched[0].exit(0)
        await wait_until(lambda: len(world.launched) == 2)
    assert running_at_spawn == [1, 1]


async def test_a_stopped_start_keeps_its_turn_until_nothing_of_it_is_left(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.missing = NOT_YET
    world.deaf = True
    async with living(world, replica("a/0")) as (first, _), living(world, replica("b/0")):
        await wait_until(lambda: len(world.probes) == 1)
        first.command("stop")
        await wait_until(lambda: world.launched[0].terminations == 1)
        assert len(world.launched) == 1
        world.deaf = False
        world.launched[0].exit(0)
        await wait_until(lambda: len(world.launched) == 2)
        await reach(first, EngineState.STOPPED)


async def test_other_gpus_are_not_waited_for(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.missing = NOT_YET
    async with living(world, replica("a/0", gpus=(0,))), living(world, replica("b/0", gpus=(1,))):
        await wait_until(lambda: len(world.launched) == 2)


async def test_groups_that_overlap_in_any_order_never_lock_each_other_out() -> None:
    lanes = StartLanes()
    holders: dict[str, int] = dict.fromkeys("abcd", 0)
    done = 0

    async def start(gpus: tuple[str, ...]) -> None:
        nonlocal done
        async with lanes.turn(gpus):
            for gpu in gpus:
                holders[gpu] += 1
            for _ in range(3):
                await asyncio.sleep(0)
                assert all(holders[gpu] == 1 for gpu in gpus)
            for gpu in gpus:
                holders[gpu] -= 1
        done += 1

    groups = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "a"), ("d", "a"), ("c", "d"), ("a", "b", "c", "d")]
    async with asyncio.timeout(5.0), asyncio.TaskGroup() as tasks:
        for group in groups * 3:
            tasks.create_task(start(group))
    assert done == len(groups) * 3
    assert not lanes.busy("abcd")


async def test_turns_come_in_the_order_of_asking() -> None:
    lanes = StartLanes()
    came: list[int] = []

    async def start(number: int) -> None:
        async with lanes.turn(("a",)):
            came.append(number)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for number in range(5):
            tasks.create_task(start(number))
    assert came == [0, 1, 2, 3, 4]


async def test_giving_up_half_of_a_group_frees_that_half() -> None:
    lanes = StartLanes()
    async with lanes.turn(("b",)):
        waiting = asyncio.create_task(_hold(lanes, ("a", "b")))
        await wait_until(lambda: lanes.busy(("a",)))
        waiting.cancel()
        await asyncio.wait({waiting})
        assert not lanes.busy(("a",))


async def _hold(lanes: StartLanes, gpus: tuple[str, ...]) -> None:
    async with lanes.turn(gpus):
        raise AssertionError("it was to wait for ever")
