"""What the documents promise is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cockpit import settings

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("themes/*.md")])
TARGETS = set(re.findall(r"^([a-z][a-z-]*):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)|<img[^>]* src=\"([^\"]+)\"")


def make(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)


def test_generated_files_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/write_docs.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_help_lists_every_target() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    assert set(phony.group(1).split()) == TARGETS
    assert all(f"make {target} " in make("help").stdout for target in TARGETS)


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_every_target_can_be_planned(target: str) -> None:
    done = make("--dry-run", target)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_targets_that_exist(page: Path) -> None:
    named = re.findall(r"`make ([a-z][a-z-]*)", page.read_text())
    assert set(named) <= TARGETS


def test_the_readme_names_the_commands_of_the_set_up() -> None:
    readme = (ROOT / "README.md").read_text()
    for words in ("make run", "make test", "make run-vllm-cpu", "VLLM_CPU_INDEX", "--unix-socket"):
        assert words in readme, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    links = [first or second for first, second in LINK.findall(page.read_text())]
    local = [link for link in links if "://" not in link and not link.startswith("mailto:")]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/examples/*.toml")), ids=lambda path: path.name)
def test_an_example_lacks_at_most_what_is_installed_later(path: Path) -> None:
    errors = settings.check(path, {"PATH": ""})
    later = ("`engine[0].model`: there is no folder", "`engine[0].python`: ")
    assert [str(error) for error in errors if not any(words in error.message for words in later)] == []
