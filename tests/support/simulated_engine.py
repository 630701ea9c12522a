"""A simulated engine as a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import msgspec

from engine.model import SimulatedEngine
from tests.support.wait_until import wait_until

READY_TIMEOUT_S = 20.0
"""Eight suites on two cores can make an interpreter slow to start."""
QUICK = SimulatedEngine(
    prefill_tokens_per_s=200_000.0,
    decode_base_s=0.002,
    decode_per_seq_s=0.0,
    kv_blocks=600,
    max_num_seqs=8,
    max_model_len=4_096,
    startup_s=0.0,
)
"""A timing that keeps tests short."""


class EngineProcess:
    """One running `python -m engine.simulator`."""

    def __init__(self, process: subprocess.Popen[bytes], uds: Path, log: Path) -> None:
        self.process = process
        self.uds = uds
        self._log = log

    @property
    def output(self) -> str:
        """All that it has printed."""
        return self._log.read_text()

    @property
    def alive(self) -> bool:
        """It has not ended."""
        return self.process.poll() is None

    @property
    def ready(self) -> bool:
        """It says that it answers, or it is dead."""
        return "Application startup complete" in self.output or not self.alive

    def client(self) -> aiohttp.ClientSession:
        """A client of its socket; the host in its URLs does not matter."""
        return aiohttp.ClientSession("http://engine", connector=aiohttp.UnixConnector(str(self.uds)))

    async def until_ready(self) -> None:
        """Wait until it answers or is dead."""
        await wait_until(lambda: self.ready, READY_TIMEOUT_S)

    async def exit_code(self, timeout_s: float = 15.0) -> int:
        """Wait for its end."""
        await wait_until(lambda: not self.alive, timeout_s)
        return self.process.wait()

    def terminate(self) -> None:
        """SIGTERM."""
        self.process.send_signal(signal.SIGTERM)


@contextmanager
def spawned_engine(
    *arguments: str,
    timing: SimulatedEngine = QUICK,
    faults: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> Iterator[EngineProcess]:
    """Start one on a Unix socket without waiting for it, and kill it at the end if it still lives.

    Args:
        arguments: Further arguments; with `--port` it listens on loopback TCP instead.
        timing: Its timing.
        faults: Fault words.
        environment: Added to the environment.
    """
    # Not pytest's folder: with a long test name its path would pass the 107 bytes of a socket address.
    with tempfile.TemporaryDirectory(prefix="sim-") as folder:
        uds, log = Path(folder, "engine.sock"), Path(folder, "engine.log")
        listen = [] if "--port" in arguments else ["--uds", str(uds)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "engine.simulator",
                    *listen,
                    "--model",
                    "lab/model-8b",
                    "--served-model-name",
                    "served",
                    "--timing",
                    msgspec.json.encode(timing).decode(),
                    *(f"--fault={word}" for word in faults),
                    *arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
            )
        try:
            yield EngineProcess(process, uds, log)
        finally:
            process.kill()
            process.wait()


@asynccontextmanager
async def simulated_engine(
    *arguments: str,
    timing: SimulatedEngine = QUICK,
    faults: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> AsyncIterator[EngineProcess]:
    """`spawned_engine`, ready or dead."""
    with spawned_engine(*arguments, timing=timing, faults=faults, environment=environment) as engine:
        await engine.until_ready()
        yield engine
