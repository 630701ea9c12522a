"""The node as a process: is one there, start one, wait for one to be gone.

One node per state folder, guarded by an flock that the kernel releases with the process, however
it ends. The lock file holds the pid for people who look; only the lock itself counts.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cockpit.paths import Paths

START_TIMEOUT_S = 60.0
"""The node opens its socket before any engine starts: imports, database and NVML, on a busy machine."""
STOP_TIMEOUT_S = 30.0
EXIT_PATIENCE_S = 5.0
"""From a refusal to the end of the process that refused."""
LOCK_PATIENCE_S = 0.5
"""`running` holds the lock for microseconds when it looks; a start must not take that for a node."""
LOCK_LOOK_S = 0.01


class NodeStartError(Exception):
    """The node could not be started; in its own words, with a remedy."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NodeLock:
    """The right to be the node of a state folder."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock and leave the pid in it.

        Raises:
            NodeStartError: another node has it, or the folder is not writable.
        """
        path = self._paths.lock
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _not_writable(path.parent, error) from error
        try:
            if not _locked(fd):
                raise NodeStartError(
                    f"a node (pid {holder(self._paths) or 'unknown'}) already runs on {path.parent}",
                    "use it, stop it with `cockpit down`, or set COCKPIT_HOME to another folder",
                )
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(fd)
            raise _not_writable(path.parent, error) from error
        except NodeStartError:
            os.close(fd)
            raise
        self._fd = fd

    def release(self) -> None:
        """Give it up."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _locked(fd: int) -> bool:
    """Take the lock, unless it is held for longer than a look takes."""
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(LOCK_LOOK_S)
        else:
            return True


def _not_writable(folder: Path, error: OSError) -> NodeStartError:
    return NodeStartError(
        f"the state folder {folder} is not writable: {error.strerror}",
        "make it writable, or set COCKPIT_HOME to another folder",
    )


def running(paths: Paths) -> bool:
    """Whether a node holds the lock of this state folder."""
    try:
        fd = os.open(paths.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def holder(paths: Paths) -> int | None:
    """The pid that the lock's holder wrote, or None."""
    try:
        return int(paths.lock.read_text().strip())
    except (OSError, ValueError):
        return None


def start(paths: Paths, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Start a node in the background; returns once its API answers.

    It gets a session of its own, so that neither a closed terminal nor a lost SSH connection ends
    it, and reports through a pipe, so that what is wrong is said here and not in a log.

    Raises:
        NodeStartError: what it reported, or that it ended without a word.
    """
    fresh = not paths.state_dir.exists()
    try:
        paths.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        log = os.open(paths.node_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _not_writable(paths.state_dir, error) from error
    report, report_to = os.pipe()
    try:
        root = str(Path(__file__).resolve().parent.parent)
        env = dict(os.environ if environment is None else environment)
        env["PYTHONPATH"] = root + (f":{env['PYTHONPATH']}" if env.get("PYTHONPATH") else "")
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "cockpit", "serve", f"--report-fd={report_to}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(report_to,),
            start_new_session=True,
            env=env,
        )
    finally:
        os.close(report_to)
        os.close(log)
    try:
        answer = _read_report(report, START_TIMEOUT_S)
    finally:
        os.close(report)
    if answer is not None and answer.get("ok"):
        child.returncode = 0  # the node outlives this process on purpose
        return
    code = _exit_code(child)
    if answer is None:
        ended = f"it ended with code {code}" if code is not None else "it did not answer and was ended"
        raise NodeStartError(f"the node did not start: {ended}", f"see {paths.node_log}")
    if fresh and not running(paths):
        # A refused first start leaves everything as it was; what it logged is said right here.
        shutil.rmtree(paths.state_dir, ignore_errors=True)
    raise NodeStartError(str(answer.get("message", "the node did not start")), str(answer.get("hint", "")))


def _exit_code(child: subprocess.Popen[bytes]) -> int | None:
    """The exit code of a node that ends by itself, as after a refusal; one that does not is ended: None."""
    try:
        return child.wait(timeout=EXIT_PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()  # it has no engines yet: it reports before it starts them
        child.wait()
        return None


def _read_report(report: int, timeout_s: float) -> dict[str, object] | None:
    """The node's one line, or None when it closed the pipe without one or took too long."""
    deadline = time.monotonic() + timeout_s
    data = b""
    while not data.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([report], [], [], left)[0]:
            return None
        piece = os.read(report, 65_536)
        if not piece:
            return None
        data += piece
    answer = json.loads(data)
    return answer if isinstance(answer, dict) else None


def wait_gone(pid: int, timeout_s: float = STOP_TIMEOUT_S) -> bool:
    """Wait for a process to end; True when it has."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        return bool(select.select([pidfd], [], [], timeout_s)[0])
    finally:
        os.close(pidfd)


def terminate(paths: Paths) -> bool:
    """SIGTERM to a node that holds the lock but does not answer; True when it ended."""
    pid = holder(paths)
    if pid is None or not running(paths):
        return True
    os.kill(pid, signal.SIGTERM)
    return wait_gone(pid)
