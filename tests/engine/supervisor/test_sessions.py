from __future__ import annotations

import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.supervisor import sessions
from engine.supervisor.sessions import Process, parse_stat


@given(
    pid=st.integers(1, 2**22),
    # The kernel's limit is 15 bytes, of any kind but zero.
    command=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=15),
    state=st.sampled_from("RSDZTtXI"),
    numbers=st.lists(st.integers(-1, 2**64 - 1), min_size=49, max_size=49),
)
def test_any_command_is_parsed(pid: int, command: str, state: str, numbers: list[int]) -> None:
    line = f"{pid} ({command}) {state} {' '.join(map(str, numbers))}\n"
    assert parse_stat(line) == Process(
        pid=pid,
        command=command,
        state=state,
        parent_pid=numbers[0],
        session_id=numbers[2],
        start_ticks=numbers[18],
    )


@pytest.mark.parametrize("text", ["", "1 (a", "1 a) S 1", "x (a) S " + "1 " * 40, "1 (a) S 1 2 3"])
def test_what_is_no_stat_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_stat(text)


def test_this_process_is_found() -> None:
    own = sessions.find(os.getpid())
    assert own is not None
    assert (own.pid, own.parent_pid, own.session_id) == (os.getpid(), os.getppid(), os.getsid(0))
    assert own in set(sessions.every_process()) or own.state != "R"
    assert sessions.lives(own)


def test_a_pid_that_cannot_be_is_not_found() -> None:
    assert sessions.find(2**22 + 1) is None
    assert not sessions.lives(Process(2**22 + 1, "x", "S", 1, 1, 1))


def test_a_signal_for_one_that_had_the_pid_before_reaches_nobody() -> None:
    own = sessions.find(os.getpid())
    assert own is not None
    earlier = Process(own.pid, own.command, own.state, own.parent_pid, own.session_id, own.start_ticks - 1)
    assert not sessions.lives(earlier)
    sessions.send((earlier,), signal.SIGKILL)  # this test would not get any further


def test_the_boot_has_a_name() -> None:
    assert len(sessions.boot_id()) == 36
