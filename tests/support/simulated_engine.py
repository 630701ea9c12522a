"""A simulated engine as a real process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
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

    def __init__(self, process: asyncio.subprocess.Process, uds: Path, log: Path) -> None:
        self.process = process
        self.uds = uds
        self._log = log

    @property
    def output(self) -> str:
        """All that it has printed."""
        return self._log.read_text()

    @property
    def ready(self) -> bool:
        """It says that it answers, or it is dead."""
        return "Application startup complete" in self.output or self.process.returncode is not None

    def client(self) -> aiohttp.ClientSession:
        """A client of its socket; the host in its URLs does not matter."""
        return aiohttp.ClientSession("http://engine", connector=aiohttp.UnixConnector(str(self.uds)))

    async def exit_code(self, timeout_s: float = 15.0) -> int:
        """Wait for its end."""
        return await asyncio.wait_for(self.process.wait(), timeout_s)

    def terminate(self) -> None:
        """SIGTERM."""
        self.process.send_signal(signal.SIGTERM)


@asynccontextmanager
async def simulated_engine(
    *arguments: str,
    timing: SimulatedEngine = QUICK,
    faults: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    wait: bool = True,
) -> AsyncIterator[EngineProcess]:
    """Start one on a Unix socket, and kill it at the end if it still lives.

    Args:
        arguments: Further arguments; `--host` and `--port` do not replace the socket.
        timing: Its timing.
        faults: Fault words.
        environment: Added to the environment.
        wait: Whether to wait until it is ready or dead.
    """
    # Not pytest's folder: with a long test name its path would pass the 107 bytes of a socket address.
    with tempfile.TemporaryDirectory(prefix="sim-") as folder:
        uds, log = Path(folder, "engine.sock"), Path(folder, "engine.log")
        listen = [] if "--port" in arguments else ["--uds", str(uds)]
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
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
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
            )
        engine = EngineProcess(process, uds, log)
        try:
            if wait:
                await wait_until(lambda: engine.ready, READY_TIMEOUT_S)
            yield engine
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
