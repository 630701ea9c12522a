from __future__ import annotations

import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from storage import database
from storage.database import prepare, reading, require_wal, suspect_mark, writing
from storage.errors import CorruptDatabaseError, NewerDatabaseError, NotWritableError, StorageError
from storage.store import open_store
from tests.storage.records import event
from tests.support.wait_until import wait_until


def left_by_a_crash(path: Path, sql: str) -> None:
    """Commit `sql` and leave file and log as a killed process leaves them."""
    folder = path.parent / "crash"
    folder.mkdir()
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.executescript(sql)
        for suffix in ("", "-wal"):
            (folder / (path.name + suffix)).write_bytes(Path(f"{path}{suffix}").read_bytes())
    connection.close()
    for suffix in ("", "-wal"):
        (folder / (path.name + suffix)).rename(Path(f"{path}{suffix}"))


def damage_a_page(path: Path) -> None:
    """Overwrite a table's page: the header and the schema stay readable."""
    with sqlite3.connect(path) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'settings'").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xa5" * 4096
    path.write_bytes(bytes(content))


async def test_a_fresh_file_is_in_wal_mode_and_can_be_vacuumed_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "state" / "cockpit.db"
    assert prepare(path) is None
    async with writing(path) as connection:
        for pragma, wanted in {
            "journal_mode": "wal",
            "auto_vacuum": 2,
            "synchronous": 2,
            "foreign_keys": 1,
            "busy_timeout": 2000,
            "journal_size_limit": 67108864,
        }.items():
            rows = await connection.execute_fetchall(f"PRAGMA {pragma}")
            assert next(iter(rows))[0] == wanted, pragma


async def test_file_log_and_folder_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "cockpit.db"
    async with open_store(path) as store:
        await store.add_event(event())
        for part in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            assert stat.S_IMODE(part.stat().st_mode) == 0o600, part
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    path.touch(0o644)
    prepare(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    async with reading(path) as connection:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await connection.execute("DELETE FROM events")


def connection_threads() -> list[str]:
    """Threads of open connections: each would keep the process from ending."""
    return [each.name for each in threading.enumerate() if "_connection_worker_thread" in each.name]


async def test_closing_leaves_no_thread(tmp_path: Path) -> None:
    async with open_store(tmp_path / "cockpit.db"):
        assert len(connection_threads()) >= 2
    await wait_until(lambda: not connection_threads())


async def test_an_error_at_opening_leaves_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    path.write_bytes(b"not a database, and longer than its header would be" * 40)
    with pytest.raises(StorageError):
        async with writing(path):
            pytest.fail("opened")
    await wait_until(lambda: not connection_threads())


def test_a_file_in_the_folders_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("mine")
    with pytest.raises(NotWritableError, match=r"state is not a folder; .*COCKPIT_HOME"):
        prepare(tmp_path / "state" / "cockpit.db")
    assert (tmp_path / "state").read_text() == "mine"


def test_a_folder_in_the_files_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cockpit.db").mkdir()
    with pytest.raises(NotWritableError, match=r"cockpit\.db cannot be written: Is a directory"):
        prepare(tmp_path / "cockpit.db")


def test_a_read_only_file_system_is_refused() -> None:
    with pytest.raises(NotWritableError, match=r"/proc/cockpit/cockpit\.db cannot be written"):
        prepare(Path("/proc/cockpit/cockpit.db"))


def test_a_folder_where_the_log_belongs_is_not_taken_for_damage(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    Path(f"{path}-wal").mkdir()
    with pytest.raises(NotWritableError, match=r"cockpit\.db cannot be written: unable to open"):
        prepare(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cockpit.db", "cockpit.db-wal"]


def test_wal_that_did_not_take_is_an_error(tmp_path: Path) -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(NotWritableError, match="stays in mode 'memory'"):
        require_wal(connection, tmp_path / "cockpit.db")
    connection.close()


def test_a_locked_database_is_an_error_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    path = tmp_path / "cockpit.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StorageError, match=r"cockpit\.db cannot be opened: database is locked; .* holds it"):
        prepare(path)
    holder.close()
    assert prepare(path) is None


def test_a_newer_database_is_refused_byte_for_byte_untouched(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(NewerDatabaseError, match=r"cockpit\.db has version 99, .* up to \d+; use the newer"):
        prepare(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["cockpit.db"]


def test_a_newer_database_is_refused_also_when_only_its_log_says_so(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    left_by_a_crash(path, "PRAGMA user_version = 99")
    before = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    assert before[1]
    with pytest.raises(NewerDatabaseError, match="has version 99"):
        prepare(path)
    assert (path.read_bytes(), Path(f"{path}-wal").read_bytes()) == before


@pytest.mark.parametrize("content", [b"no database at all, " * 400, b"SQLite format 3\0" + b"\xff" * 8192])
async def test_what_is_no_database_is_set_aside_whole(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cockpit.db"
    path.write_bytes(content)
    async with open_store(path) as store:
        assert store.notice is not None and "begun anew" in store.notice
        aside = next(tmp_path.glob("*.damaged-*"))
        assert str(aside) in store.notice
        assert (await store.add_event(event()))[1]
    assert aside.read_bytes() == content


async def test_a_damaged_page_is_found_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    damage_a_page(path)
    left_by_a_crash(
        path,
        "INSERT INTO events (at_s, kind, target, message, actor_name, severity) "
        "VALUES (1, 'node.started', 'node', 'up', 'node', 'info')",
    )
    notice = prepare(path)
    assert notice is not None and "btree" in notice.lower()
    assert "\n" not in notice
    assert len(list(tmp_path.glob("cockpit.db.damaged-*"))) == 1
    async with open_store(path) as store:
        assert await store.read.events(10) == ()


def test_damage_met_while_running_is_looked_for_at_the_next_opening(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    damage_a_page(path)
    assert prepare(path) is None, "a whole check at each start would cost seconds"
    suspect_mark(path).touch()
    assert prepare(path) is not None
    assert not suspect_mark(path).exists()
    assert prepare(path) is None


def test_a_sound_file_loses_its_mark_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    suspect_mark(path).touch()
    assert prepare(path) is None
    assert [each.name for each in tmp_path.iterdir()] == ["cockpit.db"]


def test_a_log_left_by_a_crash_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    left_by_a_crash(path, "INSERT INTO settings VALUES ('theme', 'night')")
    assert prepare(path) is None
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT value FROM settings").fetchone() == ("night",)
    connection.close()


def test_a_damaged_file_that_cannot_be_moved_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cockpit.db"
    path.write_bytes(b"no database at all, " * 400)

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(
        CorruptDatabaseError, match="cannot be moved: Permission denied; move it away by hand"
    ):
        prepare(path)
    assert path.read_bytes() == b"no database at all, " * 400
