from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import aiosqlite
import pytest

from storage import batch, changes, writer
from storage.batch import Change, Statement
from storage.database import prepare, suspect_mark, writing
from storage.errors import RejectedError, StorageError
from storage.retention import Limits
from storage.writer import SAMPLES_LIMIT, Writer
from tests.storage import records
from tests.support.wait_until import wait_until


def event(message: str, event_id: int) -> Statement:
    values = {"id": event_id, "at_s": 1.0, "kind": "k", "target": "t", "message": message}
    return changes.insert("events", values | {"actor_name": "ada", "severity": "info"})


@contextlib.asynccontextmanager
async def running(
    path: Path, *, limits: Limits | None = None, now_s: float = 1_000.0
) -> AsyncIterator[tuple[Writer, aiosqlite.Connection]]:
    """A writer at work, and its connection; flushed at the end."""
    prepare(path)
    async with writing(path) as connection:
        one = Writer(path, lambda: now_s, limits or Limits())
        await one.read_ids(connection)
        task = asyncio.create_task(one.run(connection), name="writer under test")
        try:
            yield one, connection
        finally:
            one.close()
            await task


async def add(one: Writer, message: str) -> bool:
    return await one.submit(event(message, one.new_id("events")))


def stored(path: Path) -> list[tuple[int, str]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT id, message FROM events ORDER BY id").fetchall()
    finally:
        connection.close()


def count(path: Path, table: str) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    finally:
        connection.close()


def free_pages(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("PRAGMA freelist_count").fetchone()[0])
    finally:
        connection.close()


async def fill(connection: aiosqlite.Connection) -> None:
    """Let the file grow no further."""
    (pages,) = next(iter(await connection.execute_fetchall("PRAGMA page_count")))
    await connection.execute_fetchall(f"PRAGMA max_page_count = {pages}")


async def give_space(connection: aiosqlite.Connection) -> None:
    await connection.execute_fetchall("PRAGMA max_page_count = 1000000")


BIG = "x" * 20_000
"""More than a page has room for."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cockpit.db"


async def test_an_acknowledged_change_is_in_the_file(path: Path) -> None:
    async with running(path) as (one, _):
        assert await add(one, "up") is True
        assert stored(path) == [(1, "up")]
        assert one.pending == 0
        assert not one.problem


async def test_what_waits_together_is_written_in_the_order_of_the_calls(path: Path) -> None:
    async with running(path) as (one, _):
        assert all(await asyncio.gather(*(add(one, str(i)) for i in range(1, 1_201))))
    assert stored(path) == [(i, str(i)) for i in range(1, 1_201)]


async def test_ids_go_on_after_the_last_ever_given(path: Path) -> None:
    async with running(path) as (one, _):
        await asyncio.gather(add(one, "a"), add(one, "b"))
        await one.submit(("DELETE FROM events WHERE id = 2", ()))
    async with running(path) as (one, _):
        assert one.new_id("events") == 3


async def test_a_full_disk_is_told_and_what_was_accepted_is_written_later_in_order(path: Path) -> None:
    async with running(path) as (one, connection):
        assert await add(one, "before")
        await fill(connection)
        assert await add(one, "first" + BIG) is False
        assert await add(one, "second") is False
        assert one.problem is not None
        assert one.problem.startswith("the database cannot be written: database or disk is full; ")
        assert one.problem.endswith("changes waiting in memory: 2")
        assert [message for _, message in stored(path)] == ["before"]
        await give_space(connection)
        assert await add(one, "third") is True
        assert one.pending == 0
        assert not one.problem
    assert [(i, m.removesuffix(BIG)) for i, m in stored(path)] == [
        (1, "before"),
        (2, "first"),
        (3, "second"),
        (4, "third"),
    ]


async def test_recovery_needs_no_new_change(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    async with running(path) as (one, connection):
        await fill(connection)
        assert await add(one, BIG) is False
        await give_space(connection)
        await wait_until(lambda: one.problem is None)
        assert stored(path) == [(1, BIG)]


async def test_a_lock_of_another_process_is_waited_for_briefly_then_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.database.BUSY_TIMEOUT_S", 0.05)
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    async with running(path) as (one, _):
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        assert await add(one, "meanwhile") is False
        assert one.problem is not None and "database is locked" in one.problem
        holder.execute("ROLLBACK")
        holder.close()
        await wait_until(lambda: one.problem is None)
        assert stored(path) == [(1, "meanwhile")]


async def test_a_read_only_database_is_told(path: Path) -> None:
    async with running(path) as (one, connection):
        await connection.execute_fetchall("PRAGMA query_only = ON")
        assert await add(one, "a") is False
        assert one.problem is not None and "readonly" in one.problem
        await connection.execute_fetchall("PRAGMA query_only = OFF")
        assert await add(one, "b") is True
    assert [message for _, message in stored(path)] == ["a", "b"]


async def test_a_cancelled_caller_undoes_nothing(path: Path) -> None:
    async with running(path) as (one, _):
        callers = [asyncio.create_task(add(one, str(i))) for i in range(1, 11)]
        await asyncio.sleep(0)
        for caller in callers[::2]:
            caller.cancel()
        done = await asyncio.gather(*callers, return_exceptions=True)
        assert [isinstance(each, asyncio.CancelledError) for each in done] == [True, False] * 5
    assert [message for _, message in stored(path)] == [str(i) for i in range(1, 11)]


WRONG: list[Change] = [
    (("INSERT INTO messages (id, conversation_id, role, content, at_s) VALUES (1, 7, 'user', '', 1)", ()),),
    (("INSERT INTO nowhere VALUES (1)", ()),),
    (("INSERT INTO settings VALUES (?, ?)", ("a", "\ud800")),),
    (("INSERT INTO settings VALUES (?, ?)", ("a", 2**70)),),
    (("INSERT INTO settings VALUES (?, ?)", ("a", object())),),
    (("INSERT INTO settings VALUES (?, ?)", ("a",)),),
    (event("kept by nobody", 999), event("twice", 999)),
]


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_change_fails_alone_and_whole(path: Path, wrong: Change) -> None:
    async with running(path) as (one, _):
        before, fault, after = await asyncio.gather(
            add(one, "before"), one.submit(*wrong), add(one, "after"), return_exceptions=True
        )
        assert (before, after) == (True, True)
        assert isinstance(fault, RejectedError)
        assert one.problem is None
    assert [message for _, message in stored(path)] == ["before", "after"]
    assert count(path, "settings") == 0


async def test_a_wrong_sample_is_dropped_and_counted(path: Path) -> None:
    async with running(path) as (one, _):
        one.sample(changes.gpu_sample(records.gpu(1.0)), ("INSERT INTO gpu_samples (at_s) VALUES (2)", ()))
        assert await add(one, "beside it")
        assert one.dropped_samples == 1
        assert one.problem is None
    assert count(path, "gpu_samples") == 1


async def test_samples_wait_through_a_refusal_and_the_oldest_give_way(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SAMPLES_LIMIT", 5)
    async with running(path) as (one, connection):
        await connection.execute_fetchall("PRAGMA query_only = ON")
        assert await add(one, "a") is False
        for at_s in range(8):
            one.sample(changes.gpu_sample(records.gpu(float(at_s))))
        assert one.dropped_samples == 3
        assert await add(one, "b") is False
        one.sample(changes.gpu_sample(records.gpu(8.0)))
        assert one.dropped_samples == 4
        await connection.execute_fetchall("PRAGMA query_only = OFF")
        assert await add(one, "c") is True
        rows = await connection.execute_fetchall("SELECT at_s FROM gpu_samples ORDER BY at_s")
        assert [at_s for (at_s,) in rows] == [4.0, 5.0, 6.0, 7.0, 8.0]


def test_the_sample_limit_is_minutes() -> None:
    assert SAMPLES_LIMIT >= 10 * 60 * 16


async def test_closing_writes_what_waits(path: Path) -> None:
    async with running(path) as (one, _):
        callers = [asyncio.create_task(add(one, str(i))) for i in range(1, 1_101)]
        await asyncio.sleep(0)
        one.sample(changes.gpu_sample(records.gpu(1.0)))
    assert await asyncio.gather(*callers) == [True] * 1_100
    assert len(stored(path)) == 1_100
    assert count(path, "gpu_samples") == 1


async def test_closing_while_it_refuses_ends_and_says_what_is_lost(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(path) as (one, connection):
        await connection.execute_fetchall("PRAGMA query_only = ON")
        assert await add(one, "a") is False
    assert one.pending == 1
    assert "could not be written: 1" in caplog.text


async def test_after_the_end_a_change_is_refused(path: Path) -> None:
    async with running(path) as (one, _):
        pass
    with pytest.raises(StorageError, match="the database is closed"):
        await add(one, "late")
    one.sample(changes.gpu_sample(records.gpu(1.0)))
    assert one.dropped_samples == 1


async def test_a_disk_that_hangs_is_told_and_not_waited_for_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "ANSWER_LIMIT_S", 0.05)
    let_go = asyncio.Event()
    write = batch.write

    async def hang(connection: aiosqlite.Connection, together: list[Change]) -> list[Exception | None]:
        await let_go.wait()
        return await write(connection, together)

    monkeypatch.setattr(batch, "write", hang)
    async with running(path) as (one, _):
        assert await add(one, "a") is False
        assert one.problem is not None and "no answer from the disk" in one.problem
        monkeypatch.setattr(writer, "ANSWER_LIMIT_S", 60.0)
        assert await asyncio.wait_for(add(one, "b"), timeout=5.0) is False
        let_go.set()
        await wait_until(lambda: one.problem is None and one.pending == 0)
        assert await add(one, "c") is True
    assert [message for _, message in stored(path)] == ["a", "b", "c"]


async def test_an_error_nobody_foresaw_does_not_end_the_writer(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    async with running(path) as (one, _):
        with monkeypatch.context() as patch:

            async def fail(
                connection: aiosqlite.Connection, together: list[Change]
            ) -> list[Exception | None]:
                raise ValueError("no active connection")

            patch.setattr(batch, "write", fail)
            assert await add(one, "a") is False
        await wait_until(lambda: one.problem is None)
        assert stored(path) == [(1, "a")]
    assert "Traceback" in caplog.text


async def test_damage_met_while_writing_is_marked_for_the_next_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(connection: aiosqlite.Connection, together: list[Change]) -> list[Exception | None]:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    monkeypatch.setattr(batch, "write", fail)
    async with running(path) as (one, _):
        assert await add(one, "a") is False
        assert one.problem is not None and "malformed" in one.problem
        assert suspect_mark(path).exists()


async def test_samples_alone_spare_the_sync_and_changes_never_do(path: Path) -> None:
    async def mode(connection: aiosqlite.Connection) -> int:
        return int(next(iter(await connection.execute_fetchall("PRAGMA synchronous")))[0])

    async with running(path) as (one, connection):
        one.sample(changes.gpu_sample(records.gpu(1.0)))
        await wait_until(lambda: count(path, "gpu_samples") == 1)
        assert await mode(connection) == 1
        assert await add(one, "a")
        assert await mode(connection) == 2


async def test_old_rows_go_and_their_pages_are_given_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CLEAN_FIRST_S", 0.0)
    monkeypatch.setattr("storage.retention.CHUNK_ROWS", 50)
    async with running(path, limits=Limits(samples_s=100.0), now_s=0.0) as (one, _):
        one.sample(*(changes.gpu_sample(records.gpu(i / 100)) for i in range(10_000)))
        assert await add(one, "kept")
    size_before = path.stat().st_size
    async with running(path, limits=Limits(samples_s=100.0), now_s=150.0) as (one, _):
        one.sample(changes.gpu_sample(records.gpu(150.0)))
        await wait_until(lambda: count(path, "gpu_samples") == 5_001)
        await wait_until(lambda: free_pages(path) == 0)
    assert path.stat().st_size < size_before * 0.7
    assert [message for _, message in stored(path)] == ["kept"]
