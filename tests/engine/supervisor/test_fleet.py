from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.errors import StateError, UnknownTargetError
from engine.model import EngineState
from engine.supervisor import fleet as fleet_module
from engine.supervisor.fleet import Fleet
from tests.engine.supervisor.fakes import FakeWorld, replica
from tests.support.wait_until import wait_until


def states(fleet: Fleet) -> list[str]:
    return [view.state.value for view in fleet.views()]


async def test_it_starts_what_is_wanted_and_leaves_engines_running_when_left(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with Fleet(world.surroundings) as fleet:
        fleet.add(replica("a/0", gpus=(0,)), wanted=True)
        fleet.add(replica("a/1", gpus=(1,)), wanted=False)
        await fleet.settle(["a/0", "a/1"])
        assert states(fleet) == ["ready", "stopped"]
        assert list(fleet.endpoints()) == ["a/0"]
    assert len(world.running) == 1
    assert world.recorder.ended == []


async def test_shutdown_returns_when_nothing_runs(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with Fleet(world.surroundings) as fleet:
        for index in range(3):
            fleet.add(replica(f"a/{index}", gpus=(index,)), wanted=True)
        await fleet.settle([f"a/{index}" for index in range(3)])
        await fleet.shutdown()
        assert world.running == []
        assert len(world.recorder.ended) == 3
        assert fleet.views() == ()
        assert fleet.replicas() == ()


async def test_an_empty_fleet_shuts_down_at_once(tmp_path: Path) -> None:
    async with Fleet(FakeWorld(tmp_path).surroundings) as fleet:
        await fleet.shutdown()
        await fleet.discard([])
        await fleet.settle([])


@pytest.mark.parametrize("order", ["start", "stop"])
async def test_settle_returns_for_orders_that_change_nothing(tmp_path: Path, order: str) -> None:
    async with Fleet(FakeWorld(tmp_path).surroundings) as fleet:
        fleet.add(replica(), wanted=order == "start")
        await fleet.settle(["qwen/0"])
        before = states(fleet)
        fleet.order(["qwen/0"], order)  # type: ignore[arg-type]  # parametrize has no literals
        async with asyncio.timeout(2.0):
            await fleet.settle(["qwen/0"])
        assert states(fleet) == before


async def test_settle_waits_through_back_off(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.on_spawn = lambda process: process.exit(1) if len(world.launched) == 1 else None
    async with Fleet(world.surroundings) as fleet:
        fleet.add(replica(), wanted=True)
        settled = asyncio.create_task(fleet.settle(["qwen/0"]))
        await wait_until(lambda: states(fleet) == ["backoff"])
        assert not settled.done()
        await wait_until(lambda: world.time.sleeping > 0)
        await world.time.advance(2.0)
        await asyncio.wait_for(settled, 5.0)
        assert states(fleet) == ["ready"]


async def test_settle_forgets_engines_that_are_removed_meanwhile(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.missing = "its port does not answer yet"
    async with Fleet(world.surroundings) as fleet:
        fleet.add(replica(), wanted=True)
        settled = asyncio.create_task(fleet.settle(["qwen/0"]))
        await wait_until(lambda: bool(world.probes))
        await fleet.discard(["qwen/0"])
        await asyncio.wait_for(settled, 5.0)


async def test_an_abandoned_removal_goes_on(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.deaf = True
    async with Fleet(world.surroundings) as fleet:
        fleet.add(replica(), wanted=True)
        await fleet.settle(["qwen/0"])
        removal = asyncio.create_task(fleet.discard(["qwen/0"]))
        await wait_until(lambda: world.launched[0].terminations == 1)
        removal.cancel()
        await asyncio.wait({removal})
        assert states(fleet) == ["stopping"], "whoever asked went away; the engine still has a supervisor"
        world.launched[0].exit(0)
        await wait_until(lambda: fleet.views() == ())
        assert [cause.kind for _, cause in world.recorder.ended] == ["requested"]


async def test_two_removals_of_one_engine_both_return(tmp_path: Path) -> None:
    async with Fleet(FakeWorld(tmp_path).surroundings) as fleet:
        fleet.add(replica(), wanted=True)
        await fleet.settle(["qwen/0"])
        await asyncio.wait_for(asyncio.gather(fleet.discard(["qwen/0"]), fleet.shutdown()), 5.0)
        assert fleet.specs() == ()


async def test_a_removed_name_can_be_taken_again(tmp_path: Path) -> None:
    async with Fleet(FakeWorld(tmp_path).surroundings) as fleet:
        fleet.add(replica(), wanted=True)
        with pytest.raises(StateError, match="qwen/0 exists"):
            fleet.add(replica(), wanted=True)
        await fleet.discard(["qwen/0"])
        fleet.add(replica(), wanted=True)
        await fleet.settle(["qwen/0"])
        assert states(fleet) == ["ready"]


async def test_the_gateways_table_is_the_same_object_until_something_changes(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with Fleet(world.surroundings) as fleet:
        fleet.add(replica(), wanted=True)
        await fleet.settle(["qwen/0"])
        table = fleet.replicas()
        assert fleet.replicas() is table
        assert [r.accepts for r in table] == [True]
        world.launched[0].exit(1)
        await wait_until(lambda: states(fleet) == ["backoff"])
        assert [r.accepts for r in fleet.replicas()] == [False]


async def test_a_fault_of_our_own_is_told_and_the_order_carried_out_all_the_same(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with Fleet(world.surroundings) as fleet:
        fleet.add(replica("a/0", gpus=(0,)), wanted=True)
        fleet.add(replica("b/0", gpus=(1,)), wanted=True)
        await fleet.settle(["a/0", "b/0"])
        world.recorder.faults = 1
        stopped = asyncio.create_task(fleet.discard(["a/0"]))
        await wait_until(lambda: "engine.supervision_fault" in world.kinds)
        assert world.events[-1].target == "a/0"
        await wait_until(lambda: world.time.sleeping > 0)
        await world.time.advance(fleet_module.FAULT_PAUSE_S)
        await asyncio.wait_for(stopped, 5.0)
        assert [view.name for view in fleet.views()] == ["b/0"]
        assert states(fleet) == ["ready"], "the other one never noticed"
        assert len(world.running) == 1


async def test_a_fault_while_serving_does_not_hang_a_stop(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with Fleet(world.surroundings) as fleet:
        fleet.add(replica(), wanted=True)
        await fleet.settle(["qwen/0"])
        world.recorder.faults = 1
        world.launched[0].exit(1)
        await wait_until(lambda: "engine.supervision_fault" in world.kinds)
        fleet.order(["qwen/0"], "stop")
        await wait_until(lambda: world.time.sleeping > 0)
        await world.time.advance(fleet_module.FAULT_PAUSE_S)
        await asyncio.wait_for(fleet.settle(["qwen/0"]), 5.0)
        assert states(fleet) == ["stopped"]


async def test_a_launch_that_cannot_be_recorded_is_ended_and_no_other_record_touched(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with Fleet(world.surroundings) as fleet:
        fleet.add(replica(), wanted=True)
        await fleet.settle(["qwen/0"])
        world.recorder.start_faults = 1
        fleet.order(["qwen/0"], "restart")
        await wait_until(lambda: "engine.supervision_fault" in world.kinds)
        await wait_until(lambda: world.time.sleeping > 0)
        await world.time.advance(fleet_module.FAULT_PAUSE_S)
        await asyncio.wait_for(fleet.settle(["qwen/0"]), 5.0)
        assert states(fleet) == ["ready"]
        assert [process.running for process in world.launched] == [False, False, True]
        assert world.recorder.order == ["started 1", "ready 1", "ended 1", "started 2", "ready 2"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("qwen/1", ("qwen/1",)),
        ("qwen", ("qwen/0", "qwen/1")),
        ("gpu0", ("qwen/0", "big/0")),
        ("GPU1", ("qwen/1", "big/0")),
        ("GPU-0001", ("qwen/1", "big/0")),
        ("GPU-0000-0000", ("qwen/0", "big/0")),
        ("gpu7", ("gpu7/0",)),
    ],
)
async def test_a_target_means_engines(tmp_path: Path, target: str, expected: tuple[str, ...]) -> None:
    async with Fleet(FakeWorld(tmp_path).surroundings) as fleet:
        for spec in (
            replica("qwen/0", gpus=(0,)),
            replica("qwen/1", gpus=(1,)),
            replica("big/0", gpus=(0, 1)),
            replica("gpu7/0", gpus=(3,)),
        ):
            fleet.add(spec, wanted=False)
        assert fleet.resolve(target) == expected
        assert [d.name for d in fleet.deployments()] == ["qwen", "big", "gpu7"]


@pytest.mark.parametrize("target", ["", "qwen/7", "gpu9", "GPU-", "gpu", "Qwen"])
async def test_an_unknown_target_names_the_known_ones(tmp_path: Path, target: str) -> None:
    async with Fleet(FakeWorld(tmp_path).surroundings) as fleet:
        with pytest.raises(UnknownTargetError, match="nothing is deployed"):
            fleet.resolve(target)
        fleet.add(replica("qwen/0"), wanted=False)
        with pytest.raises(UnknownTargetError, match="known: qwen, qwen/0"):
            fleet.resolve(target)


async def test_in_flight_and_state_stand_in_the_view(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with Fleet(world.surroundings) as fleet:
        fleet.add(replica(), wanted=True)
        await fleet.settle(["qwen/0"])
        world.traffic.open["qwen/0"] = 3
        (view,) = fleet.views()
        assert view.state is EngineState.READY
        assert view.in_flight == 3
        assert view.pid == view.session_id == world.launched[0].pid
        assert view.launch_id == 1
        assert view.vllm_version == "0.32.0"
        assert view.endpoint == f"unix:{tmp_path}/run/qwen-0.sock"
        assert view.open_to_local_users is None
        assert view.since_s == world.time.epoch()
