from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from storage.store import open_store

ROOT = Path(__file__).parents[2]


async def test_killed_in_mid_write_it_loses_no_acknowledged_event(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    acknowledged: list[int] = []
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-m", "tests.storage.writing_child", str(path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            acknowledged += [int(child.stdout.readline()) for _ in range(200)]
            child.kill()
            # What it had printed and nobody had read; the last line may be cut.
            rest = child.stdout.read().rpartition("\n")[0]
            acknowledged += map(int, rest.split())
        async with open_store(path) as store:
            assert store.notice is None
            kept = [event.id for event in await store.read.events(1_000_000, after=0)]
            assert set(acknowledged) <= set(kept)
            assert kept == list(range(1, len(kept) + 1)), "in order and without a gap"
    assert len(acknowledged) == len(set(acknowledged)) >= 600
