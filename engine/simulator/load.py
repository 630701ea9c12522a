"""A gentle load, so that a simulated node has something to show."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence

import aiohttp
import msgspec

from engine.model import DeploymentSpec
from engine.ports import Clock
from engine.simulator.traffic import Arrival, Traffic

LOAD_HEADER = "X-Cockpit-Load"
"""Tells these requests from an operator's; its value is `simulated`."""
MAX_IN_FLIGHT = 8
"""Requests open per deployment; an arrival that finds as many is dropped, so that a stall builds no debt."""
REQUEST_TIMEOUT_S = 120.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
"""Pause after a failure, doubled at each further one: the gateway may be away for long."""


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    error: object = None


class GentleLoad:
    """Sends streamed chats through the gateway to each deployment whose `load_rps` is above 0.

    Failures are nobody's news: the session is given up and arrivals pause for a while.

    Args:
        deployments: Of the profile.
        base_url: The gateway's, such as `http://127.0.0.1:8000`.
        clock: Paces the arrivals.
        seed: Chooses the traffic.
        accepts: Whether a deployment has a ready replica now; arrivals for one that has none are dropped,
            so that starts and drains do not fill the gateway's error count.
    """

    def __init__(
        self,
        deployments: Sequence[DeploymentSpec],
        base_url: str,
        clock: Clock,
        seed: int = 0,
        accepts: Callable[[str], bool] = lambda deployment: True,
    ) -> None:
        self._rates = {
            spec.name: spec.simulated.load_rps
            for spec in deployments
            if spec.simulated is not None and spec.simulated.load_rps > 0
        }
        self._url = f"{base_url.rstrip('/')}/v1/chat/completions"
        self._clock = clock
        self._seed = seed
        self._accepts = accepts
        self.answered = 0
        """Answers received in full."""
        self.failed = 0
        """Requests that got none."""

    async def run(self) -> None:
        """Send until cancelled."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, sock_connect=5.0)
        async with aiohttp.ClientSession(timeout=timeout) as http, asyncio.TaskGroup() as tasks:
            for deployment, rate_per_s in self._rates.items():
                tasks.create_task(self._feed(deployment, rate_per_s, http), name=f"load {deployment}")

    async def _feed(self, deployment: str, rate_per_s: float, http: aiohttp.ClientSession) -> None:
        seed = self._seed ^ zlib.crc32(deployment.encode())
        traffic = Traffic(rate_per_s, seed, self._clock.monotonic())
        open_requests: set[asyncio.Task[bool]] = set()
        pause_s, resume_s = FIRST_PAUSE_S, 0.0
        async with asyncio.TaskGroup() as tasks:
            while True:
                arrival = traffic.next()
                await self._clock.sleep(max(0.0, arrival.at_s - self._clock.monotonic()))
                done = {task for task in open_requests if task.done()}
                open_requests -= done
                if any(not task.result() for task in done):
                    resume_s = self._clock.monotonic() + pause_s
                    pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)
                elif done:
                    pause_s = FIRST_PAUSE_S
                paused = self._clock.monotonic() < resume_s or not self._accepts(deployment)
                if paused or len(open_requests) >= MAX_IN_FLIGHT:
                    traffic.failed(arrival.session)
                    continue
                open_requests.add(
                    tasks.create_task(self._ask(deployment, arrival, traffic, http), name=f"ask {deployment}")
                )

    async def _ask(
        self, deployment: str, arrival: Arrival, traffic: Traffic, http: aiohttp.ClientSession
    ) -> bool:
        body = {
            "model": deployment,
            "messages": [{"role": role, "content": text} for role, text in arrival.messages],
            "max_tokens": arrival.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        headers = {LOAD_HEADER: "simulated", "Content-Type": "application/json"}
        try:
            async with http.post(self._url, data=msgspec.json.encode(body), headers=headers) as response:
                text = await _read_answer(response) if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError):
            text = None
        if text is None:
            traffic.failed(arrival.session)
            self.failed += 1
            return False
        traffic.answered(arrival.session, text)
        self.answered += 1
        return True


async def _read_answer(response: aiohttp.ClientResponse) -> str | None:
    """The streamed text; None when the stream ended early or with an error event."""
    parts: list[str] = []
    async for line in response.content:
        if not line.startswith(b"data: "):
            continue
        payload = line[6:].strip()
        if payload == b"[DONE]":
            return "".join(parts)
        chunk = msgspec.json.decode(payload, type=_Chunk)
        if chunk.error is not None:
            return None
        parts.extend(choice.delta.content for choice in chunk.choices if choice.delta.content)
    return None
