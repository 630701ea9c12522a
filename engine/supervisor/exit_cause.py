"""Why an engine ended, from its exit status and the last lines of its log.

An exit status alone says little: vLLM exits with 0 when a worker or its core died
(vllm-project/vllm#48966), so every end that nobody asked for counts as a failure.
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Sequence

from engine.model import ExitCause

MAX_ERROR_LINES = 8
"""What fits a detail pane without scrolling."""

_GPU_OOM = re.compile(
    r"OutOfMemoryError|CUDA out of memory|HIP out of memory|No available memory for the cache blocks"
)
_HOST_OOM = re.compile(
    r"MemoryError|Cannot allocate memory|DefaultCPUAllocator: (?:not enough|can't allocate) memory"
)
_FREE_MEMORY = re.compile(
    r"Free memory on device .*is less than desired|less than desired GPU memory utilization"
)
_PORT = re.compile(r"Address already in use|EADDRINUSE|address already in use")
_ARGUMENT = re.compile(
    r"error: (?:unrecognized arguments|argument|the following arguments|ambiguous option)"
    r"|pydantic_core\._pydantic_core\.ValidationError|validation errors? for \w+Config"
)
_MISSING = re.compile(
    r"FileNotFoundError|No such file or directory|does not appear to have a file named"
    r"|is not a local folder and is not a valid model identifier|RepositoryNotFoundError"
    r"|ModuleNotFoundError|No module named|PackageNotFoundError|outgoing traffic has been disabled"
)
_ERROR = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL)\b|\b\w*(?:Error|Exception)\b: |^Traceback|: error: |^error: "
)
_PREFIX = re.compile(r"^\([^)]*pid=\d+\)\s+")


def explain(
    returncode: int | None, lines: Sequence[str], *, asked_for: bool = False, during_start: bool = False
) -> ExitCause:
    """The cause of an exit.

    Args:
        returncode: exit code, or the negated signal; None when it is not known.
        lines: the end of the log.
        asked_for: the cockpit stopped it.
        during_start: it never became ready, so a bad argument must fail again.
    """
    name = _signal_name(returncode)
    code = returncode if returncode is not None and returncode >= 0 else None
    errors = error_lines(lines)

    def cause(kind: str, summary: str, hint: str = "", *, retryable: bool = True) -> ExitCause:
        return ExitCause(
            kind=kind,  # type: ignore[arg-type]  # the literals below are ExitCause's own
            summary=summary,
            hint=hint,
            exit_code=code,
            signal=name,
            last_error_lines=errors,
            retryable=retryable,
        )

    if asked_for:
        return ExitCause(kind="requested", summary="stopped as asked", exit_code=code, signal=name)
    text = "\n".join(lines)
    if _GPU_OOM.search(text) or _FREE_MEMORY.search(text):
        return cause(
            "out_of_memory",
            "out of GPU memory",
            "lower max-model-len or gpu-memory-utilization, or free the GPU of other processes",
        )
    if _HOST_OOM.search(text):
        return cause("out_of_memory", "out of host memory", "free memory, or give the engine less KV cache")
    if during_start and _PORT.search(text):
        return cause(
            "port_taken", "its address is already in use", "find its holder with `ss -lptn`, or change it"
        )
    if during_start and (code == 2 or _ARGUMENT.search(text)):
        return cause(
            "bad_argument",
            f"bad argument: {_last(errors)}",
            "correct `args` and start it again",
            retryable=False,
        )
    if during_start and _MISSING.search(text):
        return cause(
            "missing_file",
            f"something is missing: {_last(errors)}",
            "check `model` and `python`",
            retryable=False,
        )
    if name == "SIGKILL":
        return cause(
            "signal",
            "killed by SIGKILL, not by the cockpit",
            "often the kernel's out-of-memory killer: see `dmesg | grep -i oom`",
        )
    if name in ("SIGILL", "SIGBUS"):
        return cause(
            "signal", f"killed by {name}", "this build does not suit this processor: install one that does"
        )
    if name is not None:
        return cause("signal", f"killed by {name}, not by the cockpit", "see its log")
    if returncode is None:
        return cause("unknown", "ended while no node watched it")
    when = "while starting" if during_start else "while serving"
    detail = f": {errors[-1]}" if errors else ""
    return cause("crash", f"exited with code {returncode} {when}{detail}", "see its log")


def error_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """The last lines that speak of an error, without vLLM's process prefix, cropped to 300 characters."""
    found = [_PREFIX.sub("", line).strip()[:300] for line in lines if _ERROR.search(line)]
    return tuple(found[-MAX_ERROR_LINES:])


def _last(errors: Sequence[str]) -> str:
    return errors[-1] if errors else "see its log"


def _signal_name(returncode: int | None) -> str | None:
    if returncode is None or returncode >= 0:
        return None
    try:
        return signals.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
