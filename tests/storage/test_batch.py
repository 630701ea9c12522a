from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import batch, database
from storage.batch import Change
from storage.database import prepare, writing

keys = st.sampled_from("abcd")
# Equal statements in runs, others in between; a key given twice is a wrong change.
statements = st.one_of(
    keys.map(lambda key: ("INSERT INTO settings VALUES (?, 'plain')", (key,))),
    keys.map(lambda key: ("REPLACE INTO settings VALUES (?, 'replaced')", (key,))),
    keys.map(lambda key: ("UPDATE settings SET value = value || '+' WHERE key = ?", (key,))),
    keys.map(lambda key: ("DELETE FROM settings WHERE key = ?", (key,))),
    st.just(("INSERT INTO settings VALUES (?, ?)", ("wrong", "\ud800"))),
)
batches = st.lists(st.lists(statements, max_size=4).map(tuple), max_size=12)


def expected(changes: list[Change]) -> tuple[dict[str, str], list[bool]]:
    """What each change alone in a transaction of its own would come to."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    wrong = []
    for change in changes:
        connection.execute("BEGIN")
        try:
            for sql, values in change:
                connection.execute(sql, values)
            connection.execute("COMMIT")
            wrong.append(False)
        except (sqlite3.IntegrityError, UnicodeError):
            connection.execute("ROLLBACK")
            wrong.append(True)
    rows = dict(connection.execute("SELECT key, value FROM settings"))
    connection.close()
    return rows, wrong


async def written(path: Path, changes: list[Change]) -> tuple[dict[str, str], list[bool]]:
    prepare(path)
    async with writing(path) as connection:
        faults = await batch.write(connection, changes)
        assert not connection.in_transaction
        rows = await connection.execute_fetchall("SELECT key, value FROM settings")
        return {row[0]: row[1] for row in rows}, [fault is not None for fault in faults]


@settings(max_examples=40, deadline=None)
@given(changes=batches)
def test_a_batch_comes_to_what_its_changes_one_by_one_would(changes: list[Change]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert asyncio.run(written(Path(folder) / "cockpit.db", changes)) == expected(changes)


async def test_a_locked_database_gets_nothing_and_leaves_no_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    path = tmp_path / "cockpit.db"
    prepare(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    async with writing(path) as connection:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await batch.write(connection, [(("INSERT INTO settings VALUES ('a', 'b')", ()),)])
        assert not connection.in_transaction
    holder.close()


async def test_a_refusal_in_the_midst_of_the_second_try_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    prepare(path)
    async with writing(path) as connection:
        rows = await connection.execute_fetchall("PRAGMA page_count")
        await connection.execute_fetchall(f"PRAGMA max_page_count = {next(iter(rows))[0]}")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            await batch.write(
                connection,
                [
                    (("INSERT INTO nowhere VALUES (1)", ()),),
                    (("INSERT INTO settings VALUES ('a', ?)", ("x" * 20_000,)),),
                ],
            )
        assert not connection.in_transaction
        assert list(await connection.execute_fetchall("SELECT * FROM settings")) == []
