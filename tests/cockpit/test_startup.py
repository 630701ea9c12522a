"""What a start runs, by what was asked for and what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.startup import Choice, NothingToRunError, Source, Start, choose, is_simulated
from engine.model import DeploymentSpec

FILE, DEFAULT = Path("/f.toml"), Path("/default.toml")
REAL = DeploymentSpec(name="r", model="m/m")
SIMULATED = DeploymentSpec(name="s", model="m/m", backend="simulated")


@pytest.mark.parametrize(
    ("start", "origin", "default", "has_gpus", "choice"),
    [
        (Start(profile="p"), None, None, False, Choice(Source.PROFILE, profile="p")),
        (Start(profile="p"), "/old.toml", DEFAULT, True, Choice(Source.PROFILE, profile="p")),
        (Start(config=FILE), "sim:p", DEFAULT, True, Choice(Source.FILE, config=FILE)),
        (Start(), "sim:p", DEFAULT, True, Choice(Source.RESUME, profile="p")),
        (Start(), "/old.toml", DEFAULT, True, Choice(Source.RESUME, config=Path("/old.toml"))),
        (Start(), "", DEFAULT, False, Choice(Source.RESUME)),
        (Start(auto=True), "", None, False, Choice(Source.RESUME)),
        (Start(), None, DEFAULT, False, Choice(Source.FILE, config=DEFAULT)),
        (Start(auto=True), None, DEFAULT, False, Choice(Source.FILE, config=DEFAULT)),
        (Start(auto=True), None, None, True, Choice(Source.EMPTY)),
        (Start(auto=True), None, None, False, Choice(Source.PROFILE, profile="h100x8")),
    ],
)
def test_what_is_asked_for_comes_before_what_ran_and_that_before_what_is_there(
    start: Start, origin: str | None, default: Path | None, has_gpus: bool, choice: Choice
) -> None:
    assert choose(start, origin=origin, default_config=default, has_gpus=has_gpus) == choice


@pytest.mark.parametrize("has_gpus", [False, True])
def test_with_nothing_to_run_a_plain_start_is_refused(has_gpus: bool) -> None:
    with pytest.raises(NothingToRunError):
        choose(Start(), origin=None, default_config=None, has_gpus=has_gpus)


@pytest.mark.parametrize(
    ("profile", "deployments", "simulated"),
    [
        ("p", (), True),
        ("p", (SIMULATED,), True),
        (None, (), False),
        (None, (SIMULATED,), True),
        (None, (REAL,), False),
        (None, (REAL, SIMULATED), False),
    ],
)
def test_a_machine_is_simulated_where_nothing_of_it_is_real(
    profile: str | None, deployments: tuple[DeploymentSpec, ...], simulated: bool
) -> None:
    assert is_simulated(profile, deployments) is simulated
