"""A launch on its way from its first line to its first answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.model import ExitCause
from engine.ports import Clock
from engine.supervisor import log_files, milestones
from engine.supervisor.exit_cause import explain
from engine.supervisor.readiness import Probe
from engine.supervisor.surroundings import Running

FIRST_PROBE_S = 0.05
"""A simulated engine is up in a fraction of a second …"""
PROBE_CAP_S = 0.5
"""… and a real one takes a minute: an exponential ramp serves both."""


async def outcome(
    process: Running, probe: Probe, clock: Clock, limit_s: float, show: Callable[[str], None]
) -> ExitCause | None:
    """Wait until the engine answers: None then, else why it did not.

    Its end is watched beside the probes: one that hangs must not delay the news of it.

    Args:
        limit_s: how long a start may take.
        show: told of each milestone in the log.
    """
    ended = asyncio.ensure_future(process.wait())
    answers = asyncio.ensure_future(_answers(process, probe, clock, limit_s, show))
    both = {ended, answers}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return explain(ended.result(), log_files.tail(process.log_path), during_start=True)
        return answers.result()
    finally:
        for task in both:
            task.cancel()
        await asyncio.wait(both)


async def _answers(
    process: Running, probe: Probe, clock: Clock, limit_s: float, show: Callable[[str], None]
) -> ExitCause | None:
    deadline = clock.monotonic() + limit_s
    follower = log_files.Follower(process.log_path)
    reached = milestones.LAUNCHED
    pause_s = FIRST_PROBE_S
    try:
        while True:
            reached = milestones.progress(follower.new_lines(), reached)
            show(reached)
            missing = await probe.ready()
            if missing is None:
                return None
            if clock.monotonic() >= deadline:
                return ExitCause(
                    kind="start_timeout",
                    summary=f"not ready after {limit_s:g} s: {missing}; last seen {reached}",
                    hint="see its log; raise start_timeout_s if it only needs longer",
                )
            await clock.sleep(pause_s)
            pause_s = min(PROBE_CAP_S, pause_s * 1.5)
    finally:
        await probe.close()
