from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from cockpit import settings
from cockpit.settings import ConfigFile
from cockpit.settings_text import TABLES, example, field_docs, reference, schema
from engine.model import DeploymentSpec, SimulatedEngine


def switched_on(text: str) -> str:
    """The example with the keys that are off switched on, its explanations left out."""
    lines = [line.removeprefix("# ") for line in text.splitlines()]
    return "\n".join(line for line in lines if " = " in line or line.startswith("["))


def test_the_example_passes_the_check_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text(example())
    assert settings.check(path, {}) == ()


def test_the_example_shows_every_key_with_its_default() -> None:
    document = tomllib.loads(switched_on(example()))
    config = msgspec.convert(document, ConfigFile)
    real, simulated = document["engine"]
    shown = {
        "[node]": document["node"],
        "[gateway]": document["gateway"],
        "[storage]": document["storage"],
        "[[engine]]": real | {"simulated": {}},
        "[engine.simulated]": simulated["simulated"],
    }
    assert shown.keys() == TABLES.keys()
    for table, struct in TABLES.items():
        assert set(shown[table]) == set(struct.__struct_encode_fields__), table
    assert config.engine[1].simulated == SimulatedEngine()
    assert config.engine[0].start_timeout_s == DeploymentSpec("a", "b").start_timeout_s
    assert config.gateway == settings.GatewayConfig()
    assert config.storage == settings.StorageConfig()


@pytest.mark.parametrize("table", TABLES)
def test_every_key_is_explained(table: str) -> None:
    assert set(field_docs(TABLES[table])) == set(TABLES[table].__struct_fields__)
    for key in TABLES[table].__struct_encode_fields__:
        assert f"| `{key}` |" in reference()


def test_the_schema_knows_no_null_and_no_other_keys() -> None:
    text = msgspec.json.encode(schema()).decode()
    assert '"null"' not in text
    for table, struct in TABLES.items():
        definition = schema()["$defs"][struct.__name__]
        assert definition["additionalProperties"] is False, table
        assert all("description" in value for value in definition["properties"].values()), table


def test_the_schema_does_not_depend_on_the_machine() -> None:
    assert "default" not in schema()["$defs"]["NodeConfig"]["properties"]["name"]
