"""Models, health, metrics and the figures for the cockpit."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from engine.gateway.exposition import exposition
from engine.gateway.ledger import TTFT_BOUNDS_S, Ledger
from engine.gateway.refusal import Refusal
from tests.engine.gateway.support import Stand, replica, says_hello, stand, streams
from tests.support.wait_until import wait_until


async def metrics(here: Stand) -> dict[tuple[str, ...], float]:
    """Samples by name and label values, read by Prometheus' own parser."""
    async with here.client.get(f"{here.url}/metrics") as answer:
        assert answer.content_type == "text/plain"
        families = text_string_to_metric_families(await answer.text())
        return {
            (sample.name.removeprefix("cockpit_gateway_"), *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }


async def test_models_lists_every_deployment_once(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        here.replicas = (replica("qwen/0"), replica("qwen/1"), replica("llama/0", accepts=False))
        async with here.client.get(f"{here.url}/v1/models") as answer:
            document = await answer.json()
    assert document["object"] == "list"
    assert [(one["id"], one["object"], one["root"]) for one in document["data"]] == [
        ("qwen", "model", "org/qwen"),
        ("llama", "model", "org/llama"),
    ]


async def test_one_model_is_found_by_name_and_by_alias_with_a_slash(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        here.replicas = (replica("qwen/0"),)
        for asked in ("qwen", "org/qwen", "org%2Fqwen"):
            async with here.client.get(f"{here.url}/v1/models/{asked}") as answer:
                assert (await answer.json())["id"] == "qwen"
        async with here.client.get(f"{here.url}/v1/models/nope") as answer:
            assert answer.status == 404
            assert (await answer.json())["error"]["code"] == "model_not_found"


async def test_health_is_200_only_while_a_replica_is_ready(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        here.replicas = (replica("qwen/0", accepts=False), replica("qwen/1"))
        async with here.client.get(f"{here.url}/health") as answer:
            assert answer.status == 200
            assert await answer.json() == {"status": "ok", "ready": 1, "replicas": 2, "in_flight": 0}
        here.change("qwen/1", accepts=False)
        async with here.client.get(f"{here.url}/health") as answer:
            assert answer.status == 503
            assert (await answer.json())["status"] == "unavailable"


async def test_metrics_count_requests_by_deployment_endpoint_and_outcome(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        await here.engine("qwen/0", says_hello)
        await here.engine("bad/0", streams(b"data: 1\n\n", then="break"))
        here.replicas = (*here.replicas, replica("off/0", accepts=False))
        for model in ("qwen", "org/qwen", "off", "invented"):
            await here.chat(model=model)
        async with here.client.post(f"{here.url}/v1/completions", json={"model": "bad"}) as answer:
            await answer.read()
        got = await metrics(here)
    chat, plain = "/v1/chat/completions", "/v1/completions"
    assert {key[1:]: value for key, value in got.items() if key[0] == "requests_total"} == {
        ("qwen", chat, "2xx"): 2,
        ("off", chat, "5xx"): 1,
        ("", chat, "4xx"): 1,
        ("bad", plain, "broken"): 1,
    }
    assert got["in_flight", "off/0"] == 0
    assert got["sent_bytes_total", "qwen"] > 0
    assert got["received_bytes_total", "qwen"] > 0


async def test_a_cancelled_request_is_counted_as_such(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        await here.engine("qwen/0", streams(b"data: 1\n\n", then="hang"))
        answer = await here.client.post(f"{here.url}/v1/completions", json={"model": "qwen"})
        await answer.content.readany()
        assert (await metrics(here))["in_flight", "qwen/0"] == 1
        answer.close()
        await wait_until(lambda: here.gateway.in_flight("qwen/0") == 0)
        assert (await metrics(here))["requests_total", "qwen", "/v1/completions", "cancelled"] == 1
        assert here.gateway.view().errors_total == 0


async def test_the_view_has_exact_counts_and_the_rates_of_the_last_minute(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with stand(tmp_path) as here:
        fresh = here.gateway.view()
        assert (fresh.listen, fresh.requests_per_s, fresh.ttft_p95_s) == (here.address, None, None)
        await here.engine("qwen/0", streams(b"data: 1\n\n", b"data: 2\n\n", gate=gate))
        answer = await here.client.post(f"{here.url}/v1/completions", json={"model": "qwen"})
        await answer.content.readany()
        await here.chat(model="invented")
        here.replicas = (*here.replicas, replica("off/0", accepts=False))
        await here.chat(model="off")
        here.clock.now += 10.0
        view = here.gateway.view()
        assert (view.in_flight, view.requests_total, view.errors_total) == (1, 3, 1)
        assert view.requests_per_s == 0.3
        assert view.ttft_p95_s is not None
        gate.set()
        await answer.read()
        await wait_until(lambda: here.gateway.view().in_flight == 0)
        here.clock.now += 100.0
        view = here.gateway.view()
        assert (view.requests_per_s, view.ttft_p95_s) == (0.0, None)


def test_the_histogram_is_cumulative_and_labels_are_escaped() -> None:
    ledger = Ledger(0.0)
    for ttft_s in (0.001, 0.0011, 3.0, 99_999.0):
        ledger.first_byte(0.0, ttft_s)
    odd = 'a"b\\c\nd'
    ledger.finish(odd, "/v1/completions", "2xx", 5)
    families = {family.name: family for family in text_string_to_metric_families(exposition(ledger, {}, ()))}
    assert families["cockpit_gateway_requests"].samples[0].labels["deployment"] == odd
    histogram = families["cockpit_gateway_time_to_first_byte_seconds"].samples
    buckets = {s.labels["le"]: s.value for s in histogram if s.name.endswith("_bucket")}
    assert (buckets["0.001"], buckets["0.005"], buckets["5"], buckets["+Inf"]) == (1, 2, 3, 4)
    assert len(buckets) == len(TTFT_BOUNDS_S) + 1
    assert sum(s.value for s in histogram if s.name.endswith("_count")) == 4


def test_error_documents_have_openais_four_keys() -> None:
    assert msgspec.json.decode(Refusal(500, "m").body()) == {
        "error": {"message": "m", "type": "server_error", "param": None, "code": None}
    }
