"""One engine process: spawned at once, waited for without a thread, known by its session."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

from engine.backends.plan import LaunchPlan
from engine.errors import LaunchError
from engine.supervisor import orphans, sessions


class EngineProcess:
    """A running engine and what it spawned.

    Spawning is one synchronous call (a vfork, below a few ms): there is no moment in which a
    cancelled caller could lose a process that already runs. The exit is seen through a pidfd.
    """

    def __init__(self, pid: int, start_ticks: int, log_path: Path) -> None:
        self.pid = pid
        self.session_id = pid
        self.start_ticks = start_ticks
        self.log_path = log_path
        self._code: int | None = None

    @classmethod
    def spawn(cls, plan: LaunchPlan, log_path: Path) -> EngineProcess:
        """Start the command in a new session with its output in `log_path`, never in a pipe:
        a pipe breaks the engine when the node dies.

        Raises:
            LaunchError: the command cannot be executed, or the log cannot be written.
        """
        try:
            log_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LaunchError(
                f"the log {log_path} cannot be written: {error.strerror}", "free or unlock the state folder"
            ) from error
        try:
            child = subprocess.Popen(
                plan.argv,
                env=plan.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            raise LaunchError(
                f"{plan.argv[0]} cannot be run: {error.strerror}",
                "set `python` to an interpreter that has vLLM",
            ) from error
        except ValueError as error:  # a zero byte in a word, `=` in the name of a variable
            raise LaunchError(
                f"the command or environment cannot be passed on: {error}", "correct `args` and `env`"
            ) from error
        finally:
            os.close(log)
        # The process is waited for here. A node that ends leaves engines running on purpose, which
        # `Popen` would call a leak when it is collected.
        child.returncode = 0
        found = sessions.find(child.pid)
        return cls(child.pid, found.start_ticks if found else 0, log_path)

    async def wait(self) -> int:
        """Wait for the leader to end: its exit code, or the negated signal. May be called again."""
        loop = asyncio.get_running_loop()
        while (code := self.returncode()) is None:
            ended = loop.create_future()
            pidfd = os.pidfd_open(self.pid)
            try:
                loop.add_reader(pidfd, _resolve, ended)
                await ended
            finally:
                loop.remove_reader(pidfd)
                os.close(pidfd)
        return code

    def returncode(self) -> int | None:
        """As `wait`, or None while it runs."""
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # SIGCHLD is ignored, so the kernel kept no status
                self._code = 0
            else:
                if pid:
                    self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def members(self) -> tuple[sessions.Process, ...]:
        """What lives of the session, the leader among it."""
        self.returncode()  # clears the leader's zombie
        found = sessions.belonging(self.session_id, self.start_ticks)
        orphans.clear(process for process in found if process.pid != self.pid)
        return tuple(process for process in found if process.state not in sessions.GONE)

    def terminate(self) -> None:
        """SIGTERM to the leader."""
        if self.returncode() is None:  # not waited for yet, so the pid is still its own
            os.kill(self.pid, signal.SIGTERM)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
