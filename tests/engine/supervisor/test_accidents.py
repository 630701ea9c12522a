"""What an actor does when engines die, hang, or cannot be started."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.errors import LaunchError, SpecError
from engine.events import Severity
from engine.model import EngineState
from engine.supervisor import sessions
from engine.supervisor.address import PortTakenError
from engine.supervisor.backoff import RestartPolicy
from tests.engine.supervisor.fakes import FIRST_PID, FakeProcess, FakeWorld, living, reach, replica
from tests.support.wait_until import wait_until

READY, BACKOFF = EngineState.READY, EngineState.BACKOFF


async def fail_once(world: FakeWorld, process: FakeProcess, code: int = 1) -> None:
    process.exit(code)
    await wait_until(lambda: world.time.sleeping > 0)


async def test_waits_grow_until_the_cap(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.policy = RestartPolicy(base_s=1.0, cap_s=5.0, loop_failures=99)
    waits = []
    async with living(world) as (actor, _):
        for launch in range(5):
            await reach(actor, READY)
            await fail_once(world, world.launched[launch])
            view = actor.view()
            assert view.retry_at_s is not None
            assert view.restarts == launch
            waits.append(view.retry_at_s - world.time.epoch())
            await world.time.advance(waits[-1] - 0.01)
            assert actor.state is BACKOFF, "not before its time"
            await world.time.advance(0.01)
        await reach(actor, READY)
        assert actor.view().restarts == 5
    assert waits == [1.0, 2.0, 4.0, 5.0, 5.0]


async def test_stable_running_forgets_earlier_failures(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.policy = RestartPolicy(base_s=1.0, stable_s=100.0)
    async with living(world) as (actor, _):
        for ran_s, expected_wait_s in ((0.0, 1.0), (99.0, 2.0), (101.0, 1.0)):
            await reach(actor, READY)
            await world.time.advance(ran_s)
            await fail_once(world, world.launched[-1])
            retry_at_s = actor.view().retry_at_s
            assert retry_at_s is not None
            assert retry_at_s - world.time.epoch() == pytest.approx(expected_wait_s)
            await world.time.advance(expected_wait_s)


async def test_a_crash_loop_ends_in_quarantine_however_long_its_starts_take(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.policy = RestartPolicy(loop_failures=3)
    world.missing = "its port does not answer yet"
    async with living(world, replica(start_timeout_s=10_000.0)) as (actor, _):
        for launch in range(3):
            await wait_until(lambda n=launch: len(world.launched) > n)  # type: ignore[misc]
            await wait_until(lambda: world.time.sleeping > 0)
            await world.time.advance(900.0)
            world.launched[launch].exit(1)
            await wait_until(lambda: actor.state is not EngineState.STARTING)
            await wait_until(lambda: actor.state is not EngineState.STOPPING)
            await world.time.advance(10.0)
        assert actor.state is EngineState.QUARANTINED
        assert actor.settled
        await world.time.advance(100_000.0)
        assert len(world.launched) == 3
        quarantine = world.events[-1]
        assert (quarantine.kind, quarantine.severity) == ("engine.quarantined", Severity.ERROR)
        assert "3 failures" in quarantine.message


async def test_a_start_by_hand_gives_a_fresh_count(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.policy = RestartPolicy(loop_failures=2)
    async with living(world) as (actor, _):
        await reach(actor, READY)
        await fail_once(world, world.launched[0])
        actor.command("start")
        await reach(actor, READY)
        assert actor.view().restarts == 0
        await fail_once(world, world.launched[1])
        assert actor.state is BACKOFF, "one failure since the operator looked, not two"


async def test_exit_zero_that_nobody_asked_for_is_a_failure(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with living(world) as (actor, _):
        await reach(actor, READY)
        await fail_once(world, world.launched[0], code=0)
        last = actor.view().last_exit
        assert last is not None
        assert (last.kind, last.exit_code, last.retryable) == ("crash", 0, True)
        exited = next(event for event in world.events if event.kind == "engine.exited")
        assert exited.severity is Severity.ERROR
        assert exited.target == "qwen/0"
        assert world.recorder.ended == [(1, last)]


async def test_a_start_that_takes_too_long_is_ended_and_tried_again(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.missing = "/health answers 503"
    async with living(world, replica(start_timeout_s=30.0)) as (actor, _):
        await wait_until(lambda: world.time.sleeping > 0)
        await world.time.advance(29.0)
        assert actor.state is EngineState.STARTING
        await world.time.advance(1.5)
        await reach(actor, BACKOFF)
        assert world.running == []
        cause = world.recorder.ended[0][1]
        assert cause.kind == "start_timeout"
        assert "30 s" in cause.summary
        assert "/health answers 503" in cause.summary
        assert world.kinds == ["engine.launched", "engine.exited"]


async def test_an_end_is_noticed_while_a_probe_hangs(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.hanging = True
    async with living(world) as (actor, _):
        await wait_until(lambda: bool(world.probes))
        world.launched[0].exit(-9)
        await reach(actor, BACKOFF)
        assert world.probes[0].closed
        last = actor.view().last_exit
        assert last is not None
        assert last.signal == "SIGKILL"


async def test_a_bad_argument_is_not_tried_again(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.missing = "its port does not answer yet"
    async with living(world) as (actor, _):
        await wait_until(lambda: bool(world.probes))
        world.launched[0].exit(2, "api_server.py: error: unrecognized arguments: --bogus=1")
        await reach(actor, EngineState.FAILED)
        await world.time.advance(1_000.0)
        assert len(world.launched) == 1
        last = actor.view().last_exit
        assert last is not None
        assert last.summary == "bad argument: unrecognized arguments: --bogus=1"
        assert world.recorder.ended[0][1] == last


@pytest.mark.parametrize(
    ("error", "state", "kind"),
    [
        (SpecError("args.uds is set by the cockpit", "remove it"), EngineState.FAILED, "bad_argument"),
        (LaunchError("/nowhere cannot be run", "set `python`"), EngineState.FAILED, "bad_argument"),
        (PortTakenError("port 9000 is in use", "choose another"), BACKOFF, "port_taken"),
    ],
)
async def test_a_launch_that_is_refused_leaves_no_process(
    tmp_path: Path, error: LaunchError, state: EngineState, kind: str
) -> None:
    world = FakeWorld(tmp_path)
    world.refusal = error
    async with living(world) as (actor, _):
        await reach(actor, state)
        assert world.launched == []
        assert world.recorder.order == []
        last = actor.view().last_exit
        assert last is not None
        assert (last.kind, last.summary, last.hint) == (kind, error.message, error.hint)
        exited = world.events[-1]
        assert (exited.kind, exited.message, exited.reason) == ("engine.exited", error.message, error.hint)


async def test_a_refused_launch_does_not_touch_the_record_of_the_one_before(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with living(world) as (actor, _):
        await reach(actor, READY)
        world.refusal = SpecError("no interpreter has vLLM", "install it")
        world.launched[0].exit(1)
        await reach(actor, BACKOFF)
        await world.time.advance(60.0)
        await reach(actor, EngineState.FAILED)
        assert [launch for launch, _ in world.recorder.ended] == [1]


async def test_what_does_not_die_is_a_failure_with_its_name_and_stays_on_record(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    stuck = sessions.Process(FIRST_PID + 500, "VLLM::EngineCore", "D", 1, FIRST_PID, 2)
    async with living(world) as (actor, _):
        await reach(actor, READY)
        world.launched[0].children = (stuck,)
        actor.command("stop")
        await reach(actor, EngineState.FAILED)

        view = actor.view()
        assert view.pid == FIRST_PID, "there is still something to see"
        assert view.last_exit is not None
        assert view.last_exit.kind == "unresponsive"
        assert "VLLM::EngineCore in state D" in view.last_exit.summary
        assert world.kinds[-1] == "engine.unresponsive"
        assert world.recorder.ended == [], "a later node must find it"

        actor.command("start")
        await wait_until(lambda: actor.state is EngineState.STOPPING)
        await reach(actor, EngineState.FAILED)
        assert len(world.launched) == 1, "no second engine on memory that is not free"

        world.launched[0].children = ()
        actor.command("start")
        await reach(actor, READY)
        assert [(launch, cause.kind) for launch, cause in world.recorder.ended] == [(1, "requested")]


async def test_remains_of_a_dead_leader_are_ended_before_the_next_launch(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    orphan = sessions.Process(FIRST_PID + 500, "VLLM::EngineCore", "S", 1, FIRST_PID, 2)
    async with living(world) as (actor, _):
        await reach(actor, READY)
        world.launched[0].children = (orphan,)
        world.launched[0].exit(-9)
        await reach(actor, EngineState.STOPPING)
        assert len(world.launched) == 1
        world.launched[0].children = ()
        await reach(actor, BACKOFF)
        await world.time.advance(2.0)
        await reach(actor, READY)
        assert len(world.launched) == 2


async def test_drain_waits_for_what_is_in_flight(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with living(world, replica(drain_timeout_s=1_000.0)) as (actor, _):
        await reach(actor, READY)
        world.traffic.open["qwen/0"] = 2
        actor.command("stop")
        await reach(actor, EngineState.DRAINING)
        assert not actor.routed().accepts
        await world.time.advance(900.0)
        assert actor.state is EngineState.DRAINING
        assert world.launched[0].terminations == 0
        world.traffic.open.clear()
        await world.time.advance(1.0)
        await reach(actor, EngineState.STOPPED)
        assert "engine.drain_cut" not in world.kinds


@pytest.mark.parametrize("cut", ["deadline", "second stop", "death"])
async def test_drain_is_cut(tmp_path: Path, cut: str) -> None:
    world = FakeWorld(tmp_path)
    async with living(world, replica(drain_timeout_s=20.0)) as (actor, _):
        await reach(actor, READY)
        world.traffic.open["qwen/0"] = 2
        actor.command("stop")
        await reach(actor, EngineState.DRAINING)
        await world.time.advance(19.0)
        assert actor.state is EngineState.DRAINING
        match cut:
            case "deadline":
                await world.time.advance(1.0)
            case "second stop":
                actor.command("stop")
                await world.time.advance(0.3)
            case _:
                world.launched[0].exit(-9)
                await world.time.advance(0.3)
        await reach(actor, EngineState.STOPPED)
        warning = next(event for event in world.events if event.kind == "engine.drain_cut")
        assert "2 requests" in warning.message
        assert warning.severity is Severity.WARNING
        assert world.recorder.ended[0][1].kind == ("signal" if cut == "death" else "requested")


async def test_progress_follows_the_log_and_wakes_the_watchers(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.missing = "its port does not answer yet"
    async with living(world) as (actor, _):
        await wait_until(lambda: bool(world.probes))
        assert actor.view().progress == "importing"
        log = world.launched[0].log_path
        log.parent.mkdir(parents=True)
        log.write_text("INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0)\n")
        await world.time.advance(1.0)
        assert actor.view().progress == "starting the engine core"
        world.missing = None
        await world.time.advance(1.0)
        await reach(actor, READY)
        assert actor.view().progress is None


async def test_a_cancelled_actor_leaves_its_engine_running_and_recorded(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    async with living(world) as (actor, task):
        await reach(actor, READY)
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled()
    assert len(world.running) == 1
    assert world.recorder.order == ["started 1", "ready 1"]
