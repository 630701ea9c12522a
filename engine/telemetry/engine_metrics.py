"""Scraping engines: one GET of /metrics, parsed and derived.

A scrape that fails is data, not a log line a second: the last good reading stays, with its own time,
beside since when and why there is no newer one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import aiohttp

from engine.model import Endpoint, EngineReading
from engine.ports import Clock
from engine.telemetry.derive import WANTED, Derivation, Scrape
from engine.telemetry.exposition import ExpositionError, parse

_DEADLINE_S = 2.0
"""A page is made within milliseconds; vLLM's API server takes longer only when its loop is starved."""
_PAGE_LIMIT_BYTES = 8 * 2**20
"""A page is 60 to 100 kB; LoRA adapters and data-parallel ranks multiply it."""
_HEADERS = {"Accept-Encoding": "identity"}
"""vLLM would compress the page, which costs the engine more than the socket does."""


class EngineScraper:
    """One engine process: its connection, its previous scrape, its last reading.

    A new process needs a new scraper, since its counters start again.
    """

    def __init__(self, endpoint: Endpoint, clock: Clock, deadline_s: float = _DEADLINE_S) -> None:
        self.last: EngineReading | None = None
        """The last good reading, of whatever age."""
        self.stale_since_s: float | None = None
        """UTC epoch of the first failure since the last good scrape, or None."""
        self.problem: str | None = None
        """Why the latest scrape gave nothing, or None."""
        self._clock = clock
        self._deadline_s = deadline_s
        self._endpoint = endpoint
        # The host of a Unix socket is only a header; any name does.
        self._url = "http://engine/metrics" if endpoint.uds else f"{endpoint.url}/metrics"
        self._derivation = Derivation()
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def scrape(self) -> EngineReading | None:
        """Scrape now; None on failure, which `problem` and `stale_since_s` then tell."""
        at_s, monotonic_s = self._clock.epoch(), self._clock.monotonic()
        try:
            samples = parse(await self._page(), WANTED)
        except TimeoutError:
            problem = f"/metrics did not answer within {self._deadline_s:g} s"
        except ExpositionError as error:
            problem = f"/metrics cannot be read: {error}"
        except (aiohttp.ClientError, OSError, UnicodeDecodeError) as error:
            problem = f"/metrics cannot be fetched: {str(error) or type(error).__name__}"
        else:
            if samples:
                scrape = Scrape(at_s=at_s, monotonic_s=monotonic_s, samples=samples)
                self.last = self._derivation.step(scrape)
                self.stale_since_s = self.problem = None
                return self.last
            problem = "/metrics has none of vLLM's metrics"
        self.problem = problem
        if self.stale_since_s is None:
            self.stale_since_s = at_s
        return None

    async def close(self) -> None:
        """Close the connection; later scrapes fail."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _page(self) -> str:
        if self._closed:
            raise aiohttp.ClientConnectionError("the scraper is closed")
        async with asyncio.timeout(self._deadline_s):
            if self._session is None:
                uds = self._endpoint.uds
                connector = aiohttp.UnixConnector(uds, limit=1) if uds else aiohttp.TCPConnector(limit=1)
                self._session = aiohttp.ClientSession(connector=connector, headers=_HEADERS)
            async with self._session.get(self._url) as response:
                response.raise_for_status()
                body = await response.content.read(_PAGE_LIMIT_BYTES)
                while not response.content.at_eof():
                    if len(body) >= _PAGE_LIMIT_BYTES:
                        raise aiohttp.ClientPayloadError(f"it is over {_PAGE_LIMIT_BYTES} bytes")
                    body += await response.content.read(_PAGE_LIMIT_BYTES - len(body))
                return body.decode()


class EngineScrapers:
    """The scrapers of all live engines, one per engine and generation of its process."""

    def __init__(self, clock: Clock, deadline_s: float = _DEADLINE_S) -> None:
        self._clock = clock
        self._deadline_s = deadline_s
        self._scrapers: dict[str, tuple[int, EngineScraper]] = {}

    async def scraper(self, name: str, endpoint: Endpoint, generation: int) -> EngineScraper:
        """The scraper of this process; one of an earlier generation is closed and its state dropped."""
        known = self._scrapers.get(name)
        if known is not None and known[0] == generation:
            return known[1]
        scraper = EngineScraper(endpoint, self._clock, self._deadline_s)
        self._scrapers[name] = (generation, scraper)
        if known is not None:
            await known[1].close()
        return scraper

    def last(self, name: str, generation: int) -> EngineReading | None:
        """The last good reading of this process, if any."""
        known = self._scrapers.get(name)
        return known[1].last if known is not None and known[0] == generation else None

    async def retain(self, live: Collection[str]) -> None:
        """Close the scrapers of engines that are not live."""
        for name in [name for name in self._scrapers if name not in live]:
            await self._scrapers.pop(name)[1].close()

    async def close(self) -> None:
        """Close all."""
        await self.retain(())
