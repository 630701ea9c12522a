from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.database import prepare
from storage.errors import NewerDatabaseError, StorageError
from storage.migrate import migrate, refuse_newer, steps, version_of
from storage.writer import COUNTED

ADD = (2, "CREATE TABLE added (x); INSERT INTO added SELECT count(*) FROM settings;")
BROKEN = (3, "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1);")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_steps_are_numbered_without_a_gap() -> None:
    assert [version for version, _ in steps()] == list(range(1, len(steps()) + 1))


@pytest.mark.parametrize("upto", range(1, len(steps()) + 1))
def test_each_step_applies_from_an_empty_file_and_from_each_earlier_version(
    tmp_path: Path, upto: int
) -> None:
    path = tmp_path / "cockpit.db"
    with opened(path) as connection:
        migrate(connection, path, steps()[:upto])
        assert version_of(connection) == upto
        migrate(connection, path)
        assert version_of(connection) == len(steps())
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    before = path.read_bytes()
    prepare(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["cockpit.db"]


def test_the_schema_has_the_tables_that_the_code_names(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    with opened(path) as connection:
        assert tables(connection) >= {"settings", "engines", "deployments", "gpu_samples", "engine_samples"}
        assert tables(connection) >= set(COUNTED)


def test_a_file_with_data_is_copied_before_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    with opened(path) as connection:
        connection.execute("INSERT INTO settings VALUES ('theme', 'night')")
        migrate(connection, path, [*steps(), ADD])
        assert version_of(connection) == 2
        assert connection.execute("SELECT * FROM added").fetchall() == [(1,)]
    backup = tmp_path / "cockpit.db.v1.bak"
    assert backup.stat().st_mode & 0o777 == 0o600
    with opened(backup) as connection:
        assert version_of(connection) == 1
        assert connection.execute("SELECT value FROM settings").fetchone() == ("night",)
        assert "added" not in tables(connection)
    assert not list(tmp_path.glob("*.part"))


def test_an_empty_file_needs_no_copy(tmp_path: Path) -> None:
    prepare(tmp_path / "cockpit.db")
    assert not list(tmp_path.glob("*.bak"))


def test_a_step_that_fails_leaves_the_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    with opened(path) as connection:
        with pytest.raises(StorageError, match=r"cockpit\.db cannot be brought to version 3: no such table"):
            migrate(connection, path, [*steps(), ADD, BROKEN])
        assert version_of(connection) == 2
        assert "half" not in tables(connection)
        assert not connection.in_transaction


@pytest.mark.parametrize("content", [b"", b"short"])
def test_a_file_too_short_for_a_header_is_not_newer(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cockpit.db"
    path.write_bytes(content)
    refuse_newer(path)


def test_the_present_version_is_not_newer(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    refuse_newer(path, known=len(steps()))
    with pytest.raises(NewerDatabaseError):
        refuse_newer(path, known=len(steps()) - 1)
