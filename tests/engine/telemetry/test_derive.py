from __future__ import annotations

from pathlib import Path

import pytest

from engine.model import EngineReading
from engine.telemetry.derive import WANTED, Derivation, Scrape
from engine.telemetry.exposition import parse

DATA = Path(__file__).parent / "data"


def scrape(text: str, at_s: float) -> Scrape:
    return Scrape(at_s=1_700_000_000.0 + at_s, monotonic_s=at_s, samples=parse(text, WANTED))


def test_a_pair_of_real_pages_gives_the_values_computed_by_hand() -> None:
    derivation = Derivation()
    derivation.step(scrape((DATA / "vllm_0_32.prom").read_text(), 10.0))
    reading = derivation.step(scrape((DATA / "vllm_0_32_later.prom").read_text(), 12.0))

    assert reading.at_s == 1_700_000_012.0
    assert (reading.running, reading.waiting) == (10, 0)
    assert reading.kv_used_ratio == pytest.approx(0.00073246658)
    assert reading.generation_tokens_per_s == (408 - 22) / 2
    assert reading.prompt_tokens_per_s == (5817 - 282) / 2
    assert reading.requests_per_s == (11 - 3) / 2
    assert reading.prefix_hit_ratio == pytest.approx(4608 / 5535)
    # 18 first tokens, 7 of them within 40 ms and all within 60 ms.
    assert reading.ttft_p95_s == pytest.approx(0.04 + 0.02 * (0.95 * 18 - 7) / 11)
    # 368 intervals, 366 of them within the first bucket.
    assert reading.itl_p95_s == pytest.approx(0.01 * 0.95 * 368 / 366)
    assert reading.steps_total == 76
    assert reading.kv_blocks == 16_384
    assert reading.max_num_seqs is None


def test_the_first_scrape_gives_gauges_only() -> None:
    reading = Derivation().step(scrape((DATA / "vllm_0_32_later.prom").read_text(), 10.0))
    assert (reading.running, reading.kv_blocks, reading.steps_total) == (10, 16_384, 76)
    for name in (
        "generation_tokens_per_s",
        "prompt_tokens_per_s",
        "requests_per_s",
        "ttft_p95_s",
        "itl_p95_s",
        "prefix_hit_ratio",
    ):
        assert getattr(reading, name) is None, name


def test_what_the_page_lacks_is_unknown() -> None:
    derivation = Derivation()
    derivation.step(scrape("", 0.0))
    assert derivation.step(scrape("unrelated 1", 1.0)) == EngineReading(at_s=1_700_000_001.0)


def test_not_a_number_is_unknown() -> None:
    text = 'vllm:num_requests_running{engine="0"} NaN\nvllm:generation_tokens_total{engine="0"} NaN\n'
    derivation = Derivation()
    derivation.step(scrape(text, 0.0))
    reading = derivation.step(scrape(text, 1.0))
    assert reading.running is None
    assert reading.generation_tokens_per_s is None


def test_a_counter_that_fell_gained_its_new_value() -> None:
    derivation = Derivation()
    derivation.step(scrape('vllm:generation_tokens_total{engine="0"} 1000', 0.0))
    reading = derivation.step(scrape('vllm:generation_tokens_total{engine="0"} 30', 2.0))
    assert reading.generation_tokens_per_s == 15.0
    reading = derivation.step(scrape('vllm:generation_tokens_total{engine="0"} 50', 3.0))
    assert reading.generation_tokens_per_s == 20.0


def test_engines_of_a_data_parallel_group_are_summed_and_kv_use_averaged() -> None:
    def page(first: int, second: int) -> str:
        return "\n".join(
            [
                'vllm:num_requests_running{engine="0"} 3',
                'vllm:num_requests_running{engine="1"} 4',
                'vllm:num_requests_waiting{engine="0"} 0',
                'vllm:num_requests_waiting{engine="1"} 2',
                'vllm:kv_cache_usage_perc{engine="0"} 0.2',
                'vllm:kv_cache_usage_perc{engine="1"} 0.6',
                f'vllm:generation_tokens_total{{engine="0"}} {first}',
                f'vllm:generation_tokens_total{{engine="1"}} {second}',
                'vllm:iteration_tokens_total_count{engine="0"} 7',
                'vllm:iteration_tokens_total_count{engine="1"} 8',
                'vllm:cache_config_info{engine="0",num_gpu_blocks="200"} 1',
                'vllm:cache_config_info{engine="1",num_gpu_blocks="200"} 1',
            ]
        )

    derivation = Derivation()
    derivation.step(scrape(page(100, 900), 0.0))
    # Only the second engine restarts: its fall must not hide what the first gained.
    reading = derivation.step(scrape(page(150, 10), 1.0))
    assert (reading.running, reading.waiting, reading.steps_total) == (7, 2, 15)
    assert reading.kv_used_ratio == pytest.approx(0.4)
    assert reading.generation_tokens_per_s == 60.0
    assert reading.kv_blocks == 200


def test_percentiles_stay_for_the_window_and_then_are_unknown() -> None:
    def page(count: int) -> str:
        return (
            f'vllm:time_to_first_token_seconds_bucket{{le="0.1"}} {count}\n'
            f'vllm:time_to_first_token_seconds_bucket{{le="+Inf"}} {count}\n'
        )

    derivation = Derivation(window_s=60.0)
    derivation.step(scrape(page(0), 0.0))
    assert derivation.step(scrape(page(20), 1.0)).ttft_p95_s == pytest.approx(0.095)
    assert derivation.step(scrape(page(20), 60.0)).ttft_p95_s == pytest.approx(0.095)
    assert derivation.step(scrape(page(20), 61.0)).ttft_p95_s is None


def test_blocks_not_yet_known_to_the_engine_are_unknown() -> None:
    assert Derivation().step(scrape('vllm:cache_config_info{num_gpu_blocks="None"} 1', 0.0)).kv_blocks is None
