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
LINE_LIMIT = 300
"""Characters kept of a line: pydantic repeats the whole config in some."""

_GPU_OOM = re.compile(
    r"OutOfMemoryError|CUDA out of memory|HIP out of memory|No available memory for the cache blocks"
    r"|larger than the available KV cache memory|is less than desired GPU memory utilization"
)
_HOST_OOM = re.compile(
    r"\bMemoryError|Cannot allocate memory|DefaultCPUAllocator: (?:not enough|can't allocate) memory"
    r"|is less than desired CPU memory utilization"
)
_PORT = re.compile(r"EADDRINUSE|[Aa]ddress already in use")
_ARGUMENT = re.compile(
    r"error: (?:unrecognized arguments|argument|the following arguments|ambiguous option)"
    r"|validation errors? for \w+"
)
_MISSING = re.compile(
    r"FileNotFoundError|No such file or directory|does not appear to have a file named"
    r"|is not a local folder and is not a valid model identifier|Cannot find any model weights"
    r"|RepositoryNotFoundError|GatedRepoError|LocalEntryNotFoundError|HFValidationError|OfflineModeIsEnabled"
    r"|ModuleNotFoundError|No module named|PackageNotFoundError|outgoing traffic has been disabled"
)
_ERROR = re.compile(
    r"^(?:ERROR|CRITICAL|FATAL)\b|^[\w.]*(?:Error|Exception)(?:: |$)|^Fatal Python error: |^terminate called"
    r"|^\s+what\(\): |^\s+Value error, |\berror: |: No module named "
)
_CONSEQUENCE = re.compile(
    r"Engine core initialization failed|EngineCore failed to start|WorkerProc initialization failed"
    r"|EngineDeadError|output_handler failed|EngineCore encountered an issue|cancelled"
    r"|^SystemExit|^KeyboardInterrupt"
)
"""What the other processes of an engine say when one of them failed: true, and no help."""
_PROGRAM = re.compile(r"^(?:[\w./ -]+: )?error: ")
"""How argparse begins: `api_server.py: error: unrecognized arguments: --bogus=1`."""
_PROCESS = re.compile(r"^\([^)]*pid=\d+\)\s")
_LEVEL = re.compile(r"^(?P<level>[A-Z]+) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]*\] ?)?")
"""vLLM's own lines: `ERROR 12-01 01:42:54 [core.py:953] text` (`vllm/logger.py`)."""
_SELF_EVIDENT = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGILL", "SIGBUS")
"""Signals that come from outside the program's logic: an error in the log did not send them."""


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
    errors = _errors(lines)
    shown = tuple(error[:LINE_LIMIT] for error in errors[-MAX_ERROR_LINES:])

    def cause(kind: str, summary: str, hint: str = "", *, retryable: bool = True) -> ExitCause:
        return ExitCause(
            kind=kind,  # type: ignore[arg-type]  # the literals below are ExitCause's own
            summary=summary,
            hint=hint,
            exit_code=code,
            signal=name,
            last_error_lines=shown,
            retryable=retryable,
        )

    if asked_for:
        return ExitCause(kind="requested", summary="stopped as asked", exit_code=code, signal=name)
    if name in _SELF_EVIDENT:
        return cause("signal", *_signalled(name))
    text = "\n".join(errors)
    why = _root(errors)
    if _GPU_OOM.search(text):
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
            f"bad argument: {why or 'see its log'}",
            "correct `args` and start it again",
            retryable=False,
        )
    if during_start and _MISSING.search(why):
        return cause(
            "missing_file", f"something is missing: {why}", "check `model` and `python`", retryable=False
        )
    if name is not None:
        return cause("signal", f"killed by {name}, not by the cockpit", "see its log")
    if returncode is None:
        return cause("unknown", "ended while no node watched it")
    when = "while starting" if during_start else "while serving"
    detail = f": {why}" if why else ""
    return cause("crash", f"exited with code {returncode} {when}{detail}", "see its log")


def error_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """The last lines that speak of an error, without vLLM's prefixes and tracebacks, cropped."""
    return tuple(error[:LINE_LIMIT] for error in _errors(lines)[-MAX_ERROR_LINES:])


def _errors(lines: Sequence[str]) -> list[str]:
    found: list[str] = []
    for line in lines:
        text = _PROCESS.sub("", line)
        level = _LEVEL.match(text)
        if level is not None:
            text = text[level.end() :]
            # A traceback is logged line by line: its frames are indented, what it ends with is not.
            speaks = level["level"] in ("ERROR", "CRITICAL", "FATAL") and text[:1] not in ("", " ")
        else:
            speaks = _ERROR.search(text) is not None
        text = text.strip()
        if speaks and not text.startswith("Traceback ") and text not in found[-1:]:
            found.append(text)
    return found


def _root(errors: Sequence[str]) -> str:
    """The line that names the cause: the last one that is not about another process's failure."""
    causes = [error for error in errors if not _CONSEQUENCE.search(error)] or list(errors)
    exceptions = [error for error in causes if _ERROR.search(error) or error.startswith("Value error, ")]
    newest = (exceptions or causes or [""])[-1]
    return _PROGRAM.sub("", newest).removeprefix("Value error, ")[:LINE_LIMIT]


def _signalled(name: str) -> tuple[str, str]:
    match name:
        case "SIGKILL":
            return (
                "killed by SIGKILL, not by the cockpit",
                "often the kernel's out-of-memory killer: see `dmesg | grep -i oom`",
            )
        case "SIGILL":
            return (
                "killed by SIGILL",
                "this build does not suit this processor: install one that does",
            )
        case "SIGBUS":
            return ("killed by SIGBUS", "often a full /dev/shm: see `df -h /dev/shm`")
        case _:
            return (f"killed by {name}, not by the cockpit", "see who sent it, and its log")


def _signal_name(returncode: int | None) -> str | None:
    if returncode is None or returncode >= 0:
        return None
    try:
        return signals.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
