from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from engine.model import Endpoint
from engine.telemetry.engine_metrics import EngineScraper, EngineScrapers
from tests.engine.telemetry.metrics_server import MetricsServer
from tests.support.fake_clock import FakeClock


def page(tokens: int, running: int = 1) -> str:
    return (
        f'vllm:num_requests_running{{engine="0"}} {running}\n'
        f'vllm:generation_tokens_total{{engine="0"}} {tokens}\n'
    )


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def scraper(metrics_server: MetricsServer, clock: FakeClock) -> AsyncIterator[EngineScraper]:
    scraper = EngineScraper(metrics_server.endpoint, clock, deadline_s=0.1)
    yield scraper
    await scraper.close()


async def test_two_scrapes_over_a_unix_socket_give_a_rate(
    metrics_server: MetricsServer, scraper: EngineScraper, clock: FakeClock
) -> None:
    metrics_server.page = page(100)
    first = await scraper.scrape()
    assert first is not None
    assert (first.at_s, first.running, first.generation_tokens_per_s) == (clock.epoch(), 1, None)
    await clock.advance(2.0)
    metrics_server.page = page(150)
    second = await scraper.scrape()
    assert second is not None
    assert second.generation_tokens_per_s == 25.0
    assert scraper.last is second


async def test_an_engine_on_loopback_tcp_is_scraped_too(clock: FakeClock) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=page(1, running=3))

    app = web.Application()
    app.router.add_get("/metrics", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    scraper = EngineScraper(Endpoint(host="127.0.0.1", port=runner.addresses[0][1]), clock)
    try:
        reading = await scraper.scrape()
        assert reading is not None
        assert reading.running == 3
    finally:
        await scraper.close()
        await runner.cleanup()


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("<html>not metrics</html>", 200, "none of vLLM's metrics"),
        ('vllm:num_requests_running{engine="0', 200, "line 1"),
        (b"\xff\xfe", 200, "cannot be fetched"),
        (page(1), 503, "503"),
    ],
)
async def test_a_bad_page_is_told_and_the_last_reading_stays(
    metrics_server: MetricsServer,
    scraper: EngineScraper,
    clock: FakeClock,
    body: str | bytes,
    status: int,
    words: str,
) -> None:
    metrics_server.page = page(100)
    good = await scraper.scrape()
    await clock.advance(1.0)
    failed_at_s = clock.epoch()
    metrics_server.page, metrics_server.status = body, status
    assert await scraper.scrape() is None
    await clock.advance(1.0)
    assert await scraper.scrape() is None
    assert scraper.last is good
    assert words in str(scraper.problem)
    assert scraper.stale_since_s == failed_at_s

    metrics_server.page, metrics_server.status = page(130), 200
    await clock.advance(1.0)
    recovered = await scraper.scrape()
    assert recovered is not None
    assert recovered.generation_tokens_per_s == 10.0, "over the three seconds since the last good scrape"
    assert [scraper.problem, scraper.stale_since_s] == [None, None]


async def test_an_engine_that_does_not_answer_costs_the_deadline_only(
    metrics_server: MetricsServer, scraper: EngineScraper
) -> None:
    metrics_server.gate.clear()
    assert await scraper.scrape() is None
    assert scraper.problem == "/metrics did not answer within 0.1 s"


async def test_a_socket_that_is_not_there_is_told(tmp_path: Path, clock: FakeClock) -> None:
    scraper = EngineScraper(Endpoint(uds=str(tmp_path / "gone.sock")), clock)
    assert await scraper.scrape() is None
    assert scraper.problem is not None and "gone.sock" in scraper.problem
    await scraper.close()


async def test_a_new_process_starts_without_the_state_of_the_old(
    metrics_server: MetricsServer, clock: FakeClock
) -> None:
    scrapers = EngineScrapers(clock)
    metrics_server.page = page(1_000)
    old = await scrapers.scraper("a/0", metrics_server.endpoint, 1)
    await old.scrape()
    assert await scrapers.scraper("a/0", metrics_server.endpoint, 1) is old
    assert scrapers.last("a/0", 2) is None

    await clock.advance(1.0)
    metrics_server.page = page(1_500)
    reading = await (await scrapers.scraper("a/0", metrics_server.endpoint, 2)).scrape()
    assert reading is not None
    assert reading.generation_tokens_per_s is None
    assert await old.scrape() is None, "the old one is closed"

    await scrapers.retain({"b/0"})
    assert scrapers.last("a/0", 2) is None
    await scrapers.close()
