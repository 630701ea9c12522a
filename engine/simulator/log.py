"""Log lines as vLLM writes them: `(Process pid=N) LEVEL MM-DD hh:mm:ss [file:line] text` on stdout."""

from __future__ import annotations

import os
import time
from typing import TextIO


class EngineLog:
    """Writes lines at once, so that a launch's log file is complete when the process dies."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def line(self, process: str, source: str, message: str, level: str = "INFO") -> None:
        """A line of the engine."""
        stamp = time.strftime("%m-%d %H:%M:%S")
        self.plain(f"({process} pid={os.getpid()}) {level} {stamp} [{source}] {message}")

    def plain(self, text: str) -> None:
        """A line without prefix, as uvicorn and tracebacks write."""
        self._stream.write(text + "\n")
        self._stream.flush()
