"""Real processes: what is launched, what is left, what is ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from engine.backends.plan import LaunchPlan
from engine.errors import LaunchError
from engine.model import Endpoint
from engine.supervisor import log_files, sessions
from engine.supervisor.ending import Grace, end, end_rest
from engine.supervisor.leftovers import Leftover, end_leftovers
from engine.supervisor.process import EngineProcess
from tests.support.wait_until import wait_until

CHILD = str(Path(__file__).with_name("child.py"))
GRACE = Grace(leader_s=0.3, children_s=0.3, orphans_s=0.3, kill_s=3.0)
PATIENT = Grace(leader_s=4.0, children_s=0.3, orphans_s=4.0, kill_s=3.0)

Launch = Callable[..., EngineProcess]


def plan(*words: str, env: dict[str, str] | None = None) -> LaunchPlan:
    # -I -S: a start of 15 ms, without this environment's packages.
    argv = (sys.executable, "-I", "-S", CHILD, *words)
    return LaunchPlan(argv=argv, env=env or {}, endpoint=Endpoint(), served_name="", model_name="")


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Launches children, and ends by session what a failed test left."""
    launched: list[EngineProcess] = []

    def spawn(*words: str) -> EngineProcess:
        process = EngineProcess.spawn(plan(*words), tmp_path / "logs" / f"{len(launched)}.log")
        launched.append(process)
        return process

    yield spawn
    for process in launched:
        sessions.send(process.members(), signal.SIGKILL)
        if process.returncode() is None:
            os.waitpid(process.pid, 0)


async def up(process: EngineProcess) -> None:
    await wait_until(lambda: "up" in log_files.tail(process.log_path))


def in_session(session_id: int) -> list[sessions.Process]:
    """What /proc itself says, zombies included."""
    return [process for process in sessions.every_process() if process.session_id == session_id]


async def cleared(session_id: int) -> None:
    """Init clears zombies in its own time."""
    await wait_until(lambda: in_session(session_id) == [])


async def test_it_leads_a_session_of_its_own_and_writes_to_its_log(launch: Launch) -> None:
    process = launch("say=hello")
    await up(process)
    assert log_files.tail(process.log_path) == ["hello", "up"]
    assert process.log_path.stat().st_mode & 0o777 == 0o600
    assert process.log_path.parent.stat().st_mode & 0o777 == 0o700
    (member,) = process.members()
    assert (member.pid, member.session_id, member.start_ticks) == (
        process.pid,
        process.pid,
        process.start_ticks,
    )
    assert os.getpgid(process.pid) == process.pid != os.getsid(0)
    assert Path(f"/proc/{process.pid}/fd/0").readlink() == Path("/dev/null")
    assert await end(process, PATIENT) == ()
    assert process.returncode() == -signal.SIGTERM


async def test_it_inherits_no_open_file_of_the_node(launch: Launch, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w"):
        process = launch()
        await up(process)
        open_files = {fd.name for fd in Path(f"/proc/{process.pid}/fd").iterdir()}
    assert open_files == {"0", "1", "2"}


async def test_an_exit_is_noticed_within_half_a_second(launch: Launch) -> None:
    process = launch()
    await up(process)
    waiting = asyncio.create_task(process.wait())
    await asyncio.sleep(0)
    began = time.monotonic()
    os.kill(process.pid, signal.SIGKILL)
    assert await asyncio.wait_for(waiting, 5.0) == -signal.SIGKILL
    assert time.monotonic() - began < 0.5
    assert await process.wait() == -signal.SIGKILL, "may be asked again"
    assert process.members() == ()


@pytest.mark.parametrize("code", [0, 2, 137])
async def test_the_exit_code_is_told(launch: Launch, code: int) -> None:
    process = launch(f"exit={code}")
    assert await asyncio.wait_for(process.wait(), 5.0) == code
    assert process.returncode() == code


async def test_two_may_wait_and_one_may_give_up(launch: Launch) -> None:
    process = launch()
    await up(process)
    first, second = asyncio.create_task(process.wait()), asyncio.create_task(process.wait())
    await asyncio.sleep(0)
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    first.cancel()
    await asyncio.wait({first})
    assert len(os.listdir("/proc/self/fd")) == descriptors - 1  # noqa: PTH208
    process.terminate()
    assert await asyncio.wait_for(second, 5.0) == -signal.SIGTERM
    process.terminate()  # of a process that is gone: nothing


def test_it_works_under_uvloop_and_leaves_no_warning(tmp_path: Path) -> None:
    async def life() -> tuple[int, int]:
        process = EngineProcess.spawn(plan(), tmp_path / "a.log")
        await up(process)
        waiting = asyncio.create_task(process.wait())
        await asyncio.sleep(0)
        os.kill(process.pid, signal.SIGKILL)
        killed = await asyncio.wait_for(waiting, 5.0)
        deaf = EngineProcess.spawn(plan("deaf", "deaf-orphan"), tmp_path / "b.log")
        await up(deaf)
        assert await end(deaf, GRACE) == ()
        await cleared(deaf.session_id)
        return killed, await deaf.wait()

    assert uvloop.run(life()) == (-signal.SIGKILL, -signal.SIGKILL)


def test_a_node_that_ends_may_leave_its_engine_without_a_warning(tmp_path: Path) -> None:
    """In an interpreter of its own: warnings of a collected `Popen` reach nobody here."""
    code = (
        "import gc, sys\n"
        "from pathlib import Path\n"
        "from engine.backends.plan import LaunchPlan\n"
        "from engine.model import Endpoint\n"
        "from engine.supervisor.process import EngineProcess\n"
        "argv = tuple(sys.argv[2:])\n"
        "plan = LaunchPlan(argv=argv, env={}, endpoint=Endpoint(), served_name='', model_name='')\n"
        "process = EngineProcess.spawn(plan, Path(sys.argv[1]))\n"
        "print(process.pid, process.start_ticks)\n"
        "del process\n"
        "gc.collect()\n"
    )
    log = tmp_path / "engine.log"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", code, str(log), *plan().argv],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    pid, start_ticks = map(int, done.stdout.split())
    try:
        assert done.stderr == ""
        assert [p.pid for p in sessions.members(pid, start_ticks)] == [pid]
    finally:
        sessions.send(sessions.members(pid, start_ticks), signal.SIGKILL)


@pytest.mark.parametrize(
    ("words", "grace", "code"),
    [
        ((), PATIENT, -signal.SIGTERM),
        (("deaf",), GRACE, -signal.SIGKILL),
        (("orphan",), PATIENT, -signal.SIGTERM),
        (("deaf-orphan",), GRACE, -signal.SIGTERM),
        (("deaf", "deaf-orphan", "orphan"), GRACE, -signal.SIGKILL),
    ],
)
async def test_end_leaves_nothing_of_the_session(
    launch: Launch, words: tuple[str, ...], grace: Grace, code: int
) -> None:
    process = launch(*words)
    await up(process)
    assert len(process.members()) == 1 + sum("orphan" in word for word in words)
    assert await end(process, grace) == ()
    assert process.returncode() == code
    assert process.members() == ()


def test_a_node_that_adopts_orphans_leaves_not_even_a_zombie(tmp_path: Path) -> None:
    """In an interpreter of its own, since adoption cannot be told from outside and outlives the test."""
    code = (
        "import asyncio, os, signal, sys, time\n"
        "from pathlib import Path\n"
        "from engine.backends.plan import LaunchPlan\n"
        "from engine.model import Endpoint\n"
        "from engine.supervisor import log_files, orphans, sessions\n"
        "from engine.supervisor.ending import Grace, end_rest\n"
        "from engine.supervisor.process import EngineProcess\n"
        "assert orphans.adopt()\n"
        "argv = tuple(sys.argv[2:])\n"
        "plan = LaunchPlan(argv=argv, env={}, endpoint=Endpoint(), served_name='', model_name='')\n"
        "process = EngineProcess.spawn(plan, Path(sys.argv[1]))\n"
        "while 'up' not in log_files.tail(process.log_path):\n"
        "    time.sleep(0.01)\n"
        "os.kill(process.pid, signal.SIGKILL)\n"
        "asyncio.run(process.wait())\n"
        "left = [p.parent_pid for p in process.members()]\n"
        "assert left == [os.getpid()], left\n"
        "assert asyncio.run(end_rest(process, Grace(kill_s=3.0))) == ()\n"
        "assert not [p for p in sessions.every_process() if p.session_id == process.session_id]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "engine.log"), *plan("orphan").argv],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=Path(__file__).parents[3],
    )
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("words", [("orphan",), ("deaf-orphan",)])
async def test_what_outlives_a_killed_leader_is_ended(launch: Launch, words: tuple[str, ...]) -> None:
    process = launch(*words)
    await up(process)
    os.kill(process.pid, signal.SIGKILL)
    assert await asyncio.wait_for(process.wait(), 5.0) == -signal.SIGKILL
    (orphan,) = process.members()
    assert orphan.parent_pid != process.pid
    assert os.getpgid(orphan.pid) != process.session_id, "no process group would have reached it"
    assert await end_rest(process, GRACE) == ()
    assert not sessions.lives(orphan)


async def test_a_stopped_leader_is_killed(launch: Launch) -> None:
    process = launch()
    await up(process)
    os.kill(process.pid, signal.SIGSTOP)
    await wait_until(lambda: [p.state for p in process.members()] == ["T"])
    assert await end(process, GRACE) == ()
    assert process.returncode() == -signal.SIGKILL


async def test_a_zombie_does_not_hold_up_the_end(launch: Launch) -> None:
    """A member whose parent never waits for it, here this very process."""
    process = launch("orphan")
    await up(process)
    (orphan,) = (member for member in process.members() if member.pid != process.pid)
    os.kill(orphan.pid, signal.SIGKILL)  # its parent, the leader, only pauses
    await wait_until(lambda: not sessions.lives(orphan))
    assert [p.state for p in in_session(process.session_id) if p.pid == orphan.pid] == ["Z"]
    os.kill(process.pid, signal.SIGSTOP)  # so the leader cannot end and pass its zombie on
    try:
        assert orphan not in process.members()
        sessions.send((orphan,), signal.SIGTERM)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    assert await asyncio.wait_for(end(process, PATIENT), 3.0) == ()


async def test_a_leftover_of_this_boot_is_ended(launch: Launch) -> None:
    process, bystander = launch("orphan"), launch()
    await up(process)
    await up(bystander)
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    left = Leftover(7, "qwen/0", process.session_id, process.start_ticks, sessions.boot_id())
    assert await end_leftovers((left,), GRACE) == {7: 1}
    await cleared(process.session_id)
    assert bystander.returncode() is None


async def test_a_leftover_with_its_leader_alive_is_ended_whole(launch: Launch) -> None:
    process = launch("deaf", "orphan")
    await up(process)
    left = Leftover(1, "qwen/0", process.session_id, process.start_ticks, sessions.boot_id())
    assert await end_leftovers((left,), GRACE) == {1: 2}
    assert process.returncode() == -signal.SIGKILL


@pytest.mark.parametrize("difference", ["boot", "start"])
async def test_a_session_that_only_has_the_number_is_left_alone(launch: Launch, difference: str) -> None:
    process = launch("orphan")
    await up(process)
    left = Leftover(
        launch_id=1,
        engine="qwen/0",
        session_id=process.session_id,
        start_ticks=process.start_ticks - (5 if difference == "start" else 0),
        boot_id="another" if difference == "boot" else sessions.boot_id(),
    )
    assert left.members() == ()
    assert await end_leftovers((left,), GRACE) == {1: 0}
    assert process.returncode() is None
    assert len(process.members()) == 2


async def test_remains_older_than_the_launch_are_of_an_earlier_session_of_that_number(launch: Launch) -> None:
    process = launch("orphan")
    await up(process)
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    (orphan,) = process.members()
    left = Leftover(1, "qwen/0", process.session_id, orphan.start_ticks + 1, sessions.boot_id())
    assert left.members() == ()
    assert await end_leftovers((left,), GRACE) == {1: 0}
    assert sessions.lives(orphan)


async def test_leftovers_that_are_long_gone_cost_nothing() -> None:
    gone = tuple(Leftover(n, "qwen/0", 2**22 + n, 5, sessions.boot_id()) for n in range(3))
    assert await end_leftovers(gone, GRACE) == {0: 0, 1: 0, 2: 0}
    assert await end_leftovers((), GRACE) == {}


@pytest.mark.parametrize(
    ("argv", "env", "words"),
    [
        (("/nowhere/python",), {}, "/nowhere/python cannot be run: No such file"),
        (("/etc/passwd",), {}, "/etc/passwd cannot be run: Permission denied"),
        (("/bin/true", "a\0b"), {}, "cannot be passed on: embedded null byte"),
        (("/bin/true",), {"A=B": "c"}, "cannot be passed on: illegal environment variable name"),
    ],
)
def test_a_command_that_cannot_be_run_says_so(
    tmp_path: Path, argv: tuple[str, ...], env: dict[str, str], words: str
) -> None:
    refused = LaunchPlan(argv=argv, env=env, endpoint=Endpoint(), served_name="", model_name="")
    with pytest.raises(LaunchError, match=words) as caught:
        EngineProcess.spawn(refused, tmp_path / "x.log")
    assert caught.value.hint


def test_a_log_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LaunchError, match="cannot be written"):
        EngineProcess.spawn(plan(), tmp_path / "file" / "x.log")
