"""Causes, from what engines really wrote. Files in `data/` are whole logs of vLLM 0.32 on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.supervisor import log_files
from engine.supervisor.exit_cause import LINE_LIMIT, MAX_ERROR_LINES, error_lines, explain

DATA = Path(__file__).with_name("data")

CUDA_OOM = """\
(EngineCore pid=812) ERROR 12-01 01:42:54 [core.py:1510] EngineCore failed to start.
(EngineCore pid=812) ERROR 12-01 01:42:54 [core.py:1510] Traceback (most recent call last):
(EngineCore pid=812) ERROR 12-01 01:42:54 [core.py:1510]   File "/opt/core.py", line 1482, in run_engine_core
(EngineCore pid=812) ERROR 12-01 01:42:54 [core.py:1510]     raise e
(EngineCore pid=812) ERROR 12-01 01:42:54 [core.py:1510] torch.OutOfMemoryError: CUDA out of memory. Tried \
to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 10.75 MiB is free.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"""
NO_CACHE = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."
CACHE_TOO_SMALL = (
    "ValueError: To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache is "
    "needed, which is larger than the available KV cache memory (3.2 GiB). "
)
FREE_MEMORY = (
    "ValueError: Free memory on device cuda:0 (10.2/79.11 GiB) on startup is less than desired GPU memory "
    "utilization (0.9, 71.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by others."
)
CPU_MEMORY = (
    "ValueError: Available memory on node 0 (3.2/12.34 GiB) on startup is less than desired CPU memory "
    "utilization (0.9, 11.1 GiB)."
)
HOST_OOM = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)"
)
ABORTED = """\
terminate called after throwing an instance of 'c10::OutOfMemoryError'
  what():  CUDA out of memory. Tried to allocate 2.00 GiB."""
DEAD_CORE = """\
(APIServer pid=9) ERROR 12-01 01:42:54 [async_llm.py:700] AsyncLLM output_handler failed.
(APIServer pid=9) ERROR 12-01 01:42:54 [async_llm.py:700] Traceback (most recent call last):
(APIServer pid=9) ERROR 12-01 01:42:54 [async_llm.py:700] vllm.v1.engine.exceptions.EngineDeadError: \
EngineCore encountered an issue. See stack trace (above) for the root cause."""
NO_MODULE = "/usr/bin/python3: No module named vllm"
PORT = "OSError: [Errno 98] error while attempting to bind on ('127.0.0.1', 9000): address already in use"
IMPORT_WARNING = (
    "(APIServer pid=9) WARNING 12-01 01:42:54 [x.py:1] ModuleNotFoundError: No module named 'triton'"
)
NCCL = "RuntimeError: NCCL error: unhandled system error"


def read(name: str) -> list[str]:
    return log_files.tail(DATA / f"{name}.log")


@pytest.mark.parametrize(
    ("log", "code", "kind", "words"),
    [
        ("argparse", 2, "bad_argument", "bad argument: unrecognized arguments: --bogus=1"),
        ("validation", 1, "bad_argument", "User-specified max_model_len (99999) is greater than"),
        ("missing_model", 1, "missing_file", "Repo id must be in the form"),
        ("missing_weights", 1, "missing_file", "Cannot find any model weights with `/models/tiny`"),
        ("offline", 1, "missing_file", "outgoing traffic has been disabled"),
    ],
)
def test_a_real_failed_start_is_explained_by_its_root_and_not_tried_again(
    log: str, code: int, kind: str, words: str
) -> None:
    cause = explain(code, read(log), during_start=True)
    assert cause.kind == kind
    assert words in cause.summary
    assert not cause.retryable
    assert cause.hint
    assert cause.exit_code == code
    assert any(words.removeprefix("bad argument: ")[:40] in line for line in cause.last_error_lines)


def test_a_real_log_without_an_error_explains_nothing() -> None:
    assert error_lines(read("ready")) == ()
    cause = explain(0, read("ready"))
    assert (cause.kind, cause.summary) == ("crash", "exited with code 0 while serving")
    assert cause.retryable


def test_a_traceback_is_left_out_and_its_end_kept() -> None:
    lines = error_lines(read("missing_weights"))
    assert lines[0] == "WorkerProc failed to start."
    assert lines[1] == "RuntimeError: Cannot find any model weights with `/models/tiny`"
    assert not any("File " in line or "Traceback" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "code", "starting", "kind", "words", "retryable"),
    [
        (CUDA_OOM, 1, True, "out_of_memory", "out of GPU memory", True),
        (CUDA_OOM, 0, False, "out_of_memory", "out of GPU memory", True),
        (NO_CACHE, 1, True, "out_of_memory", "out of GPU memory", True),
        (CACHE_TOO_SMALL, 1, True, "out_of_memory", "out of GPU memory", True),
        (FREE_MEMORY, 1, True, "out_of_memory", "out of GPU memory", True),
        (ABORTED, -6, False, "out_of_memory", "out of GPU memory", True),
        (HOST_OOM, 1, True, "out_of_memory", "out of host memory", True),
        (CPU_MEMORY, 1, True, "out_of_memory", "out of host memory", True),
        ("MemoryError", 1, True, "out_of_memory", "out of host memory", True),
        (PORT, 1, True, "port_taken", "already in use", True),
        (NO_MODULE, 1, True, "missing_file", "No module named vllm", False),
        ("", 2, True, "bad_argument", "see its log", False),
        ("", 2, False, "crash", "code 2 while serving", True),
        ("", -9, False, "signal", "killed by SIGKILL, not by the cockpit", True),
        (CUDA_OOM, -9, False, "signal", "killed by SIGKILL, not by the cockpit", True),
        ("", -15, False, "signal", "killed by SIGTERM, not by the cockpit", True),
        ("", -4, True, "signal", "killed by SIGILL", True),
        ("", -7, False, "signal", "killed by SIGBUS", True),
        ("", -11, False, "signal", "killed by SIGSEGV, not by the cockpit", True),
        ("", -63, False, "signal", "killed by signal 63", True),
        ("", 0, False, "crash", "exited with code 0 while serving", True),
        ("", 1, True, "crash", "exited with code 1 while starting", True),
        ("", None, False, "unknown", "no node watched", True),
        (DEAD_CORE, 0, False, "crash", "EngineDeadError", True),
        (NCCL, 1, False, "crash", "exited with code 1 while serving: RuntimeError: NCCL error", True),
        (IMPORT_WARNING, 1, True, "crash", "exited with code 1 while starting", True),
        (f"{IMPORT_WARNING}\n{NCCL}", 1, True, "crash", "NCCL error", True),
        (PORT, 1, False, "crash", "address already in use", True),
    ],
)
def test_the_cause(
    text: str, code: int | None, starting: bool, kind: str, words: str, retryable: bool
) -> None:
    cause = explain(code, text.split("\n"), during_start=starting)
    assert cause.kind == kind
    assert words in cause.summary
    assert cause.retryable is retryable
    assert cause.hint or kind == "unknown"
    assert (cause.exit_code, cause.signal is None) == (
        (code, True) if code is not None and code >= 0 else (None, code is None)
    )


def test_an_end_that_was_asked_for_is_no_failure_whatever_its_log_says() -> None:
    cause = explain(0, DEAD_CORE.split("\n"), asked_for=True)
    assert (cause.kind, cause.last_error_lines, cause.exit_code) == ("requested", (), 0)
    assert explain(-9, (), asked_for=True).signal == "SIGKILL"


def test_an_earlier_refusal_of_a_port_does_not_explain_a_later_crash_of_another_kind() -> None:
    assert explain(1, [*PORT.split("\n"), NCCL], during_start=False).kind == "crash"


@given(st.lists(st.text(max_size=500), max_size=40), st.integers(-64, 255), st.booleans())
def test_any_log_gives_a_bounded_cause(lines: list[str], code: int, starting: bool) -> None:
    cause = explain(code, lines, during_start=starting)
    assert len(cause.last_error_lines) <= MAX_ERROR_LINES
    assert all(0 < len(line) <= LINE_LIMIT for line in cause.last_error_lines)
    assert len(cause.summary) <= LINE_LIMIT + 100
    assert "\n" not in cause.summary
