"""From a command and what is remembered to what a node runs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cockpit import paths
from cockpit.intent import ORIGIN, SECTIONS, Intent, IntentError, Sections, read_intent
from cockpit.settings import ConfigError
from cockpit.startup import Source, Start
from engine.errors import SpecError
from engine.model import DeploymentSpec

SIMULATED = DeploymentSpec(name="s", model="m/m", backend="simulated")
REAL = DeploymentSpec(name="r", model="m/m")
ENGINE = '[[engine]]\nname = "a"\nmodel = "m/m"\nbackend = "simulated"\n'


class Remembered:
    """What the last run left."""

    def __init__(self, *deployments: DeploymentSpec, **settings: str) -> None:
        self._deployments = deployments
        self._settings = settings

    async def setting(self, key: str) -> str | None:
        return self._settings.get(key.removeprefix("node."))

    async def deployments(self) -> tuple[DeploymentSpec, ...]:
        return self._deployments


async def _intent(
    home: Path, start: Start, memory: Remembered | None = None, *, has_gpus: bool = False, **environment: str
) -> Intent:
    where = paths.find({"COCKPIT_HOME": str(home)})
    return await read_intent(start, where, memory or Remembered(), environment, has_gpus=has_gpus)


def _left_by(intent: Intent, *deployments: DeploymentSpec) -> Remembered:
    sections = msgspec.json.encode(intent.sections).decode()
    assert (ORIGIN, SECTIONS) == ("node.origin", "node.sections")
    return Remembered(*deployments, origin=intent.origin, sections=sections)


async def test_a_profile_is_simulated_and_takes_a_free_port(tmp_path: Path) -> None:
    intent = await _intent(tmp_path, Start(profile="l40sx2"))
    assert (intent.source, intent.origin) == (Source.PROFILE, "sim:l40sx2")
    assert intent.simulated
    assert intent.replaces
    assert intent.listen == ("127.0.0.1", 0)
    assert [spec.name for spec in intent.deployments] == ["qwen"]


async def test_a_port_that_is_configured_is_taken_also_when_simulated(tmp_path: Path) -> None:
    by_flag = await _intent(tmp_path, Start(profile="l40sx2", listen="127.0.0.1:9123"))
    by_environment = await _intent(tmp_path, Start(profile="l40sx2"), COCKPIT_GATEWAY_LISTEN="127.0.0.1:9124")
    assert by_flag.listen == ("127.0.0.1", 9123)
    assert by_environment.listen == ("127.0.0.1", 9124)


async def test_a_file_is_run_and_remembered_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[node]\nname = "box"\n[gateway]\nlisten = "127.0.0.1:9125"\n' + ENGINE)
    intent = await _intent(tmp_path, Start(config=file))
    assert (intent.source, intent.origin) == (Source.FILE, str(file))
    assert intent.sections.node.name == "box"
    assert intent.listen == ("127.0.0.1", 9125)


async def test_the_users_own_config_is_the_first_thing_to_run(tmp_path: Path) -> None:
    file = tmp_path / "config" / "cockpit.toml"
    file.parent.mkdir()
    file.write_text(ENGINE)
    assert (await _intent(tmp_path, Start())).origin == str(file)


async def test_a_start_resumes_without_the_file_it_came_from(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[node]\nname = "box"\n[gateway]\nlisten = "127.0.0.1:9125"\n' + ENGINE)
    first = await _intent(tmp_path, Start(config=file))
    file.unlink()
    again = await _intent(tmp_path, Start(), _left_by(first, *first.deployments))
    assert again.source is Source.RESUME
    assert not again.replaces
    assert (again.origin, again.sections, again.listen) == (first.origin, first.sections, first.listen)
    assert again.deployments == first.deployments


async def test_flags_and_environment_of_now_come_before_what_is_remembered(tmp_path: Path) -> None:
    first = await _intent(tmp_path, Start(profile="l40sx2"), COCKPIT_NODE_NAME="old")
    memory = _left_by(first, *first.deployments)
    again = await _intent(tmp_path, Start(listen="127.0.0.1:9126"), memory, COCKPIT_NODE_NAME="new")
    assert again.listen == ("127.0.0.1", 9126)
    assert again.sections.node.name == "new"
    kept = await _intent(tmp_path, Start(), memory)
    assert kept.sections.node.name == "old"


@pytest.mark.parametrize("sections", ["", "{", '{"node": 1}'])
async def test_sections_that_cannot_be_read_are_defaults(tmp_path: Path, sections: str) -> None:
    intent = await _intent(tmp_path, Start(), Remembered(SIMULATED, origin="sim:l40sx2", sections=sections))
    assert intent.sections.gateway == (await _intent(tmp_path, Start(profile="l40sx2"))).sections.gateway
    assert intent.deployments == (SIMULATED,)


async def test_a_machine_whose_deployments_were_all_removed_stays_what_it_was(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(ENGINE)
    simulated = await _intent(tmp_path, Start(config=file))
    assert (await _intent(tmp_path, Start(), _left_by(simulated))).simulated
    real = await _intent(tmp_path, Start(auto=True), has_gpus=True)
    assert real.source is Source.EMPTY
    resumed = await _intent(tmp_path, Start(), _left_by(real), has_gpus=True)
    assert not resumed.simulated
    with_engines = await _intent(tmp_path, Start(), _left_by(real, REAL), has_gpus=True)
    assert with_engines.deployments == (REAL,)


async def test_nothing_to_run_names_the_ways_to_run_something(tmp_path: Path) -> None:
    with pytest.raises(IntentError) as caught:
        await _intent(tmp_path, Start())
    assert "--sim h100x8" in caught.value.hint


async def test_an_unknown_profile_names_the_known(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="l40sx2"):
        await _intent(tmp_path, Start(profile="l40sx3"))


async def test_real_and_simulated_engines_are_not_run_together(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="s would be simulated"):
        await _intent(tmp_path, Start(), Remembered(REAL, SIMULATED, origin="/f"))


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        await _intent(tmp_path, Start(config=tmp_path / "nowhere.toml"))


def test_sections_of_an_earlier_version_are_still_read() -> None:
    text = '{"node": {"name": "n"}, "gateway": {}, "storage": {}, "listen_is_configured": false}'
    assert msgspec.json.decode(text, type=Sections).simulated is False
