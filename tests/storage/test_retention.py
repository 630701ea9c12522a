from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import retention
from storage.migrate import migrate
from storage.retention import Limits, expired


@contextlib.contextmanager
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, Path("unused"))
    try:
        yield connection
    finally:
        connection.close()


def add_events(connection: sqlite3.Connection, times_s: list[float]) -> None:
    connection.executemany(
        "INSERT INTO events (at_s, kind, target, message, actor_name, severity) "
        "VALUES (?, '', '', '', '', '')",
        [(at_s,) for at_s in times_s],
    )


def clean(connection: sqlite3.Connection, limits: Limits, now_s: float) -> int:
    """Remove what has expired; returns how many statements removed something."""
    rounds = 0
    for sql, values in expired(limits, now_s):
        while connection.execute(sql, values).rowcount:
            rounds += 1
    return rounds


def column(connection: sqlite3.Connection, sql: str) -> list[float]:
    return [value for (value,) in connection.execute(sql)]


@given(times_s=st.lists(st.integers(0, 100), unique=True, max_size=60), chunk=st.integers(1, 7))
def test_exactly_the_samples_older_than_the_limit_go(times_s: list[int], chunk: int) -> None:
    with database() as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "CHUNK_ROWS", chunk)
        for table, name in (("gpu_samples", "gpu_uuid, at_s"), ("engine_samples", "engine, state, at_s")):
            values = "'a', 'b', ?" if table == "engine_samples" else "'a', ?"
            connection.executemany(
                f"INSERT INTO {table} ({name}) VALUES ({values})", [(at_s,) for at_s in times_s]
            )
        clean(connection, Limits(samples_s=40.0), now_s=100.0)
        kept = sorted(at_s for at_s in times_s if at_s >= 60)
        for table in ("gpu_samples", "engine_samples"):
            assert column(connection, f"SELECT at_s FROM {table} ORDER BY at_s") == kept


@given(
    ages_s=st.lists(st.integers(0, 100), min_size=1, max_size=60),
    rows=st.integers(1, 50),
    chunk=st.integers(1, 7),
)
def test_events_go_from_the_oldest_and_the_newest_stays(ages_s: list[int], rows: int, chunk: int) -> None:
    times_s = sorted(100.0 - age_s for age_s in ages_s)
    with database() as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "CHUNK_ROWS", chunk)
        add_events(connection, times_s)
        clean(connection, Limits(events_s=40.0, events_rows=rows), now_s=100.0)
        young = [at_s for at_s in times_s if at_s >= 60.0] or times_s[-1:]
        assert column(connection, "SELECT at_s FROM events ORDER BY id") == young[-rows:]


def test_a_clock_that_was_wrong_for_a_while_removes_nothing_that_came_after() -> None:
    with database() as connection:
        add_events(connection, [10.0, 95.0, 1.0, 2.0, 96.0])
        clean(connection, Limits(events_s=40.0), now_s=100.0)
        assert column(connection, "SELECT at_s FROM events ORDER BY id") == [95.0, 1.0, 2.0, 96.0]


def test_removal_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "CHUNK_ROWS", 10)
    with database() as connection:
        add_events(connection, [float(i) for i in range(100)])
        assert clean(connection, Limits(events_s=1.0), now_s=1_000.0) == 10


def test_an_empty_database_has_nothing_to_remove() -> None:
    with database() as connection:
        assert clean(connection, Limits(), now_s=1e9) == 0


def test_the_limits_are_a_day_of_samples_and_a_year_of_events() -> None:
    assert Limits() == Limits(samples_s=86_400.0, events_s=365 * 86_400.0, events_rows=1_000_000)
