"""The node as a process: its lock, its start, its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cockpit import node_process, paths
from cockpit.node_process import NodeLock, NodeStartError

REPOSITORY = Path(__file__).resolve().parents[2]
HOLD = """
import sys
from cockpit import node_process, paths
node_process.NodeLock(paths.find()).acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def where(tmp_path: Path) -> paths.Paths:
    return paths.find({"COCKPIT_HOME": str(tmp_path)})


@contextmanager
def _holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env={**os.environ, "COCKPIT_HOME": str(tmp_path)},
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_one_node_has_the_lock_and_its_pid_is_told(where: paths.Paths, tmp_path: Path) -> None:
    assert not node_process.running(where)
    with _holder(tmp_path) as other:
        assert node_process.running(where)
        assert node_process.holder(where) == other.pid
        with pytest.raises(NodeStartError, match=f"pid {other.pid}"):
            NodeLock(where).acquire()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_kernel_gives_the_lock_back_however_its_holder_ends(
    where: paths.Paths, tmp_path: Path, number: signal.Signals
) -> None:
    with _holder(tmp_path) as other:
        other.send_signal(number)
        other.wait()
        assert not node_process.running(where)
        lock = NodeLock(where)
        lock.acquire()
        assert node_process.holder(where) == os.getpid()
        lock.release()
    assert not node_process.running(where)


def test_a_look_at_the_lock_does_not_turn_a_start_away(where: paths.Paths) -> None:
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            node_process.running(where)

    lookers = [threading.Thread(target=look) for _ in range(3)]
    NodeLock(where).release()
    for looker in lookers:
        looker.start()
    try:
        for _ in range(50):
            lock = NodeLock(where)
            lock.acquire()
            lock.release()
    finally:
        stop.set()
        for looker in lookers:
            looker.join()


def test_the_lock_is_not_inherited(where: paths.Paths) -> None:
    lock = NodeLock(where)
    lock.acquire()
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        lock.release()
        assert not node_process.running(where)
        child.kill()


def test_a_lock_file_of_nobody_holds_nothing(where: paths.Paths) -> None:
    where.state_dir.mkdir()
    where.lock.write_text("not a pid")
    assert node_process.holder(where) is None
    assert not node_process.running(where)
    assert node_process.terminate(where)


def test_a_state_folder_that_cannot_be_made_is_named(where: paths.Paths) -> None:
    where.state_dir.write_text("in the way")
    for attempt in (NodeLock(where).acquire, lambda: node_process.start(where, [])):
        with pytest.raises(NodeStartError, match=str(where.state_dir)) as caught:
            attempt()
        assert "COCKPIT_HOME" in caught.value.hint


def _start(where: paths.Paths, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Start a script instead of a node; `report` is its pipe."""
    script = where.state_dir.parent / "node.sh"
    script.write_text(
        f"#!{sys.executable}\nimport os, signal, sys, time\n"
        "report = int(next(a for a in sys.argv if a.startswith('--report-fd=')).partition('=')[2])\n" + code
    )
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    node_process.start(where, ["--sim", "x"])


def test_a_start_returns_when_the_node_reports_and_leaves_it_running(
    where: paths.Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    _start(
        where,
        monkeypatch,
        "print(os.getpid(), os.getsid(0), sys.argv[1:], flush=True)\n"
        "os.write(report, b'{\"ok\": true}\\n'); os.close(report); signal.pause()\n",
    )
    words = where.node_log.read_text().split(maxsplit=2)
    pid = int(words[0])
    try:
        assert words[1] == words[0]  # a session of its own
        assert "--sim" in words[2]
        os.kill(pid, 0)
        assert not node_process.wait_gone(pid, timeout_s=0.0)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert node_process.wait_gone(pid, timeout_s=0.0)


def test_a_refusal_is_told_in_the_nodes_own_words(
    where: paths.Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NodeStartError, match="it is Monday") as caught:
        _start(
            where,
            monkeypatch,
            'os.write(report, b\'{"ok": false, "message": "it is Monday", "hint": "wait"}\\n\')\n',
        )
    assert caught.value.hint == "wait"


def test_a_node_that_ends_without_a_word_is_told_with_its_log(
    where: paths.Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NodeStartError, match="code 7") as caught:
        _start(where, monkeypatch, "print('the reason'); sys.exit(7)\n")
    assert str(where.node_log) in caught.value.hint
    assert "the reason" in where.node_log.read_text()


def test_a_node_that_does_not_answer_is_not_left_behind(
    where: paths.Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_process, "START_TIMEOUT_S", 1.0)
    monkeypatch.setattr(node_process, "EXIT_PATIENCE_S", 0.05)
    with pytest.raises(NodeStartError, match="did not answer"):
        _start(where, monkeypatch, "print(os.getpid(), flush=True); signal.pause()\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(where.node_log.read_text()), 0)


def test_waiting_for_a_process_that_is_gone_returns_at_once() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    assert node_process.wait_gone(child.pid, timeout_s=0.0)


def test_terminate_ends_a_node_that_does_not_answer(where: paths.Paths, tmp_path: Path) -> None:
    with _holder(tmp_path) as other:
        assert node_process.terminate(where)
        assert other.wait(timeout=5) == -signal.SIGTERM
