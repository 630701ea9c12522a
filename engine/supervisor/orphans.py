"""Orphans come to the node instead of init, so that it can clear them.

`VLLM::EngineCore` loses its parent when the API server is killed. Once it ends it stays in the
process table as a zombie of the session until its new parent waits for it. Init does that in its
own time, and the first process of many containers never does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable

from engine.supervisor import sessions

_PR_SET_CHILD_SUBREAPER = 36
"""`linux/prctl.h`."""


def adopt() -> bool:
    """Make this process the parent of its descendants' orphans (prctl(2)); whether that worked."""
    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def clear(processes: Iterable[sessions.Process]) -> None:
    """Wait for those that ended as children of this process."""
    own = os.getpid()
    for process in processes:
        if process.state in sessions.GONE and process.parent_pid == own:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
