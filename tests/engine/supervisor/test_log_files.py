from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.supervisor import log_files
from engine.supervisor.log_files import KEPT_PER_ENGINE, PARTIAL_LIMIT_BYTES, Follower


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


def add(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


def test_each_line_comes_once_and_only_when_it_has_ended(log: Path) -> None:
    follower = Follower(log)
    assert follower.new_lines() == []
    add(log, b"one\ntw")
    assert follower.new_lines() == ["one"]
    assert follower.new_lines() == []
    add(log, b"o\nthree\n")
    assert follower.new_lines() == ["two", "three"]


def test_a_progress_bar_is_read_while_it_moves(log: Path) -> None:
    add(log, b"shards:  50%\rshards: 100%\r")
    assert Follower(log).new_lines() == ["shards:  50%", "shards: 100%"]


def test_a_character_cut_in_two_is_put_together(log: Path) -> None:
    follower = Follower(log)
    euro = "€".encode()
    add(log, euro[:1])
    assert follower.new_lines() == []
    add(log, euro[1:] + b"\n\xff\n")
    assert follower.new_lines() == ["€", "\ufffd"]


def test_far_behind_only_the_newest_is_read_and_no_line_is_made_of_two(log: Path) -> None:
    follower = Follower(log)
    add(log, b"begun ")
    assert follower.new_lines(100) == []
    add(log, b"x" * 10_000 + b"\nlast\n")
    lines = follower.new_lines(100)
    assert lines[-1] == "last"
    assert sum(map(len, lines)) < 100
    assert not lines[0].startswith("begun")


def test_a_log_that_was_emptied_is_read_from_its_start(log: Path) -> None:
    follower = Follower(log)
    add(log, b"a long line that is there\nhalf")
    assert follower.new_lines() == ["a long line that is there"]
    os.truncate(log, 0)
    add(log, b"new\n")
    assert follower.new_lines() == ["new"]


def test_a_line_without_end_takes_no_memory(log: Path) -> None:
    follower = Follower(log)
    for _ in range(10):
        add(log, b"x" * PARTIAL_LIMIT_BYTES)
        assert follower.new_lines() == []
    add(log, b"\n")
    (line,) = follower.new_lines()
    assert len(line) == PARTIAL_LIMIT_BYTES


@given(st.lists(st.binary(max_size=30), max_size=20))
def test_however_a_log_grows_its_lines_are_those_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    log = tmp_path_factory.mktemp("grow") / "x.log"
    follower = Follower(log)
    seen: list[str] = []
    for piece in pieces:
        add(log, piece)
        seen += follower.new_lines()
    whole = b"".join(pieces).replace(b"\r", b"\n").split(b"\n")[:-1]
    assert seen == [line.decode(errors="replace") for line in whole]


def test_the_tail_of_a_big_log_is_small(log: Path) -> None:
    with log.open("wb") as file:
        file.truncate(3 * 2**30)  # a hole: takes no room
        file.seek(0, 2)
        file.write(b"\nlast but one\nlast\n")
    lines = log_files.tail(log)
    assert lines[-2:] == ["last but one", "last"]
    assert len("".join(lines)) <= log_files.TAIL_BYTES


def test_the_tail_of_what_is_not_there_is_empty(tmp_path: Path) -> None:
    assert log_files.tail(tmp_path / "none.log") == []
    assert log_files.tail(tmp_path) == []


@pytest.mark.parametrize(
    ("engine", "folder"),
    [
        ("qwen/0", "qwen-0"),
        ("../../etc/0", "..-..-etc-0"),
        ("a b\n/0", "a-b--0"),
        ("q.w_e-n/12", "q.w_e-n-12"),
    ],
)
def test_a_log_lies_in_its_engines_folder(tmp_path: Path, engine: str, folder: str) -> None:
    path = log_files.new_path(tmp_path, engine, 1_700_000_000.0, 3)
    assert path == tmp_path / folder / "20231114T221320Z-0003.log"
    assert path.resolve().is_relative_to(tmp_path)


def test_the_oldest_logs_go_and_the_newest_stay(tmp_path: Path) -> None:
    paths = [
        log_files.new_path(tmp_path, "qwen/0", 1_700_000_000.0 + second, generation)
        for second, generation in [(0, n) for n in range(5, 15)] + [(n, 1) for n in range(1, 15)]
    ]
    for path in reversed(paths):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    other = log_files.new_path(tmp_path, "qwen/1", 0.0, 1)
    other.parent.mkdir()
    other.touch()
    log_files.prune(tmp_path, "qwen/0")
    assert sorted(paths[0].parent.iterdir()) == paths[-KEPT_PER_ENGINE:]
    assert other.exists()
    log_files.prune(tmp_path, "never/0")
