"""The metrics of a simulated engine, under vLLM 0.32's names, labels and buckets.

Buckets and names are those of `vllm/v1/metrics/{buckets,loggers}.py`. Left out are the analytic FLOP
estimates (a model that is not there computes nothing) and the Python process metrics.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.model import SimulatedEngine
from engine.simulator.exposition import Histogram, Scalar
from engine.simulator.timing import EngineModel, Finished, StepResult

LATENCY_BOUNDS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip
TTFT_BOUNDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
ITL_BOUNDS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
ITERATION_BOUNDS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
PREEMPTION_BOUNDS = (1, 2, 3, 4, 5, 10, 20)
PARAMS_N_BOUNDS = (1, 2, 5, 10, 20)
FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
CACHE_SOURCES = ("device", "host", "p2p", "disk", "external_unspecified")


def token_bounds(max_model_len: int) -> list[float]:
    """The 1-2-5 series up to the longest sequence."""
    bounds: list[float] = []
    decade = 1
    while True:
        for mantissa in (1, 2, 5):
            if mantissa * decade > max_model_len:
                return bounds
            bounds.append(mantissa * decade)
        decade *= 10


class EngineMetrics:
    """Counts what the model reports and writes it out.

    Args:
        served_name: The label `model_name`.
        timing: Of the model, for the cache's configuration.
        created_s: UTC epoch seconds of the start.
    """

    def __init__(self, served_name: str, timing: SimulatedEngine, created_s: float) -> None:
        self._labels = {"engine": "0", "model_name": served_name}
        self._created_s = created_s
        self._order: list[Scalar | Histogram] = []
        lengths = token_bounds(timing.max_model_len)

        self._running = self._gauge("num_requests_running", "Number of requests in model execution batches.")
        self._waiting = self._gauge("num_requests_waiting", "Number of requests waiting to be processed.")
        self._waiting_by_reason = self._gauge(
            "num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            "reason",
            ("capacity", "deferred"),
        )
        self._gauge(
            "engine_sleep_state",
            "Engine sleep state.",
            "sleep_state",
            ("awake", "weights_offloaded", "discard_all"),
        ).set(1.0)
        self._kv_used = self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")
        self._cache_queries = self._counter(
            "prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens."
        )
        self._cache_hits = self._counter(
            "prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens."
        )
        self._counter("external_prefix_cache_queries", "External prefix cache queries from KV connector.")
        self._counter("external_prefix_cache_hits", "External prefix cache hits from KV connector.")
        self._counter("mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items.")
        self._counter("mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items.")
        self._preemptions = self._counter(
            "num_preemptions", "Cumulative number of preemption from the engine."
        )
        self._prompt_tokens = self._counter("prompt_tokens", "Number of prefill tokens processed.")
        self._prompt_sources = self._counter(
            "prompt_tokens_by_source",
            "Number of prompt tokens by source.",
            "source",
            ("local_compute", "local_cache_hit", "external_kv_transfer"),
        )
        self._prompt_cached = self._counter(
            "prompt_tokens_cached", "Number of cached prompt tokens (local + external)."
        )
        self._cached_sources = self._counter(
            "prompt_tokens_cached_by_source",
            "Prefix-cache hit tokens by the cache tier that supplied them.",
            "source",
            CACHE_SOURCES,
        )
        self._generation_tokens = self._counter("generation_tokens", "Number of generation tokens processed.")
        self._success = self._counter(
            "request_success", "Count of successfully processed requests.", "finished_reason", FINISH_REASONS
        )
        rejections = [
            {"model_name": served_name, "reason": reason}
            for reason in ("max_num_queued_reqs", "max_num_queued_tokens")
        ]
        self._order.append(
            Scalar(
                "vllm:admission_rejections",
                "Number of admission attempts rejected by a queue limit, by reason.",
                "counter",
                rejections,
                created_s,
            )
        )
        self._request_prompt = self._histogram(
            "request_prompt_tokens", "Number of prefill tokens processed.", lengths
        )
        self._request_generation = self._histogram(
            "request_generation_tokens", "Number of generation tokens processed.", lengths
        )
        self._iteration = self._histogram(
            "iteration_tokens_total", "Histogram of number of tokens per engine_step.", ITERATION_BOUNDS
        )
        self._max_generation = self._histogram(
            "request_max_num_generation_tokens",
            "Histogram of maximum number of requested generation tokens.",
            lengths,
        )
        self._params_n = self._histogram(
            "request_params_n", "Histogram of the n request parameter.", PARAMS_N_BOUNDS
        )
        self._params_max_tokens = self._histogram(
            "request_params_max_tokens", "Histogram of the max_tokens request parameter.", lengths
        )
        self._ttft = self._histogram(
            "time_to_first_token_seconds", "Histogram of time to first token in seconds.", TTFT_BOUNDS
        )
        self._itl = self._histogram(
            "inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", ITL_BOUNDS
        )
        self._tpot = self._histogram(
            "request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            ITL_BOUNDS,
        )
        self._e2e = self._phase("e2e_request_latency", "e2e request latency")
        self._queue = self._phase("request_queue_time", "time spent in WAITING phase for request")
        self._inference = self._phase("request_inference_time", "time spent in RUNNING phase for request")
        self._prefill = self._phase("request_prefill_time", "time spent in PREFILL phase for request")
        self._decode = self._phase("request_decode_time", "time spent in DECODE phase for request")
        self._request_preemptions = self._histogram(
            "request_num_preemptions",
            "Histogram of the number of times a request was preempted.",
            PREEMPTION_BOUNDS,
        )
        self._prefill_computed = self._histogram(
            "request_prefill_kv_computed_tokens",
            "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
            lengths,
        )
        self._cache_config(timing)

    def observe_step(self, result: StepResult) -> None:
        """Count one engine step."""
        self._cache_queries.add(result.cache_queries)
        self._cache_hits.add(result.cache_hits)
        self._cached_sources.add(result.cache_hits)
        self._preemptions.add(len(result.preempted))
        self._generation_tokens.add(len(result.emitted))
        self._iteration.observe(result.prefill_tokens + len(result.emitted))
        for tokens, cached in result.prompts:
            self._prompt_tokens.add(tokens)
            self._prompt_cached.add(cached)
            self._prompt_sources.add(tokens - cached, 0)
            self._prompt_sources.add(cached, 1)
        for token in result.emitted:
            (self._ttft if token.number == 1 else self._itl).observe(token.gap_s)

    def observe_finished(self, finished: Finished, reason: str, max_tokens: int | None) -> None:
        """Count a complete answer.

        Args:
            finished: Where its time went.
            reason: `stop` or `length`.
            max_tokens: What the client asked for, or None where it left that open.
        """
        self._success.add(1, FINISH_REASONS.index(reason))
        self._request_prompt.observe(finished.prompt_tokens)
        self._request_generation.observe(finished.output_tokens)
        self._max_generation.observe(finished.output_tokens)
        self._params_n.observe(1)
        if max_tokens is not None:
            self._params_max_tokens.observe(max_tokens)
        if finished.output_tokens > 1:
            self._tpot.observe(finished.decode_s / (finished.output_tokens - 1))
        self._e2e.observe(finished.e2e_s)
        self._queue.observe(finished.queue_s)
        self._inference.observe(finished.prefill_s + finished.decode_s)
        self._prefill.observe(finished.prefill_s)
        self._decode.observe(finished.decode_s)
        self._request_preemptions.observe(finished.preemptions)
        self._prefill_computed.observe(finished.prompt_tokens - finished.cached_tokens)

    def observe_abort(self) -> None:
        """Count a request whose client went away."""
        self._success.add(1, FINISH_REASONS.index("abort"))

    def render(self, model: EngineModel) -> str:
        """The page, about 30 kB."""
        self._running.set(model.running)
        self._waiting.set(model.waiting)
        self._waiting_by_reason.set(model.waiting)
        self._kv_used.set(model.kv_used_ratio)
        return "".join(block for family in self._order for block in family.render())

    @property
    def totals(self) -> tuple[float, float, float, float]:
        """Prompt tokens, generated tokens, cache queries and cache hits, for the log's statistics line."""
        return (
            self._prompt_tokens.values[0],
            self._generation_tokens.values[0],
            self._cache_queries.values[0],
            self._cache_hits.values[0],
        )

    def _label_sets(self, label: str, values: Sequence[str]) -> list[dict[str, str]]:
        return [{**self._labels, label: value} for value in values] if label else [self._labels]

    def _gauge(self, name: str, documentation: str, label: str = "", values: Sequence[str] = ()) -> Scalar:
        gauge = Scalar(f"vllm:{name}", documentation, "gauge", self._label_sets(label, values))
        self._order.append(gauge)
        return gauge

    def _counter(self, name: str, documentation: str, label: str = "", values: Sequence[str] = ()) -> Scalar:
        counter = Scalar(
            f"vllm:{name}", documentation, "counter", self._label_sets(label, values), self._created_s
        )
        self._order.append(counter)
        return counter

    def _histogram(self, name: str, documentation: str, bounds: Sequence[float]) -> Histogram:
        histogram = Histogram(f"vllm:{name}", documentation, bounds, self._labels, self._created_s)
        self._order.append(histogram)
        return histogram

    def _phase(self, name: str, what: str) -> Histogram:
        return self._histogram(f"{name}_seconds", f"Histogram of {what} in seconds.", LATENCY_BOUNDS)

    def _cache_config(self, timing: SimulatedEngine) -> None:
        tokens = timing.kv_blocks * timing.block_tokens
        labels = {
            "engine": "0",
            "block_size": str(timing.block_tokens),
            "cache_dtype": "auto",
            "enable_prefix_caching": "True",
            "gpu_memory_utilization": "0.92",
            "kv_cache_max_concurrency": str(tokens / timing.max_model_len),
            "kv_cache_memory_bytes": str(timing.kv_bytes),
            "kv_cache_size_tokens": str(tokens),
            "num_gpu_blocks": str(timing.kv_blocks),
            "num_gpu_blocks_override": "None",
            "prefix_caching_hash_algo": "sha256",
            "sliding_window": "None",
        }
        info = Scalar("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", "gauge", [labels])
        info.set(1.0)
        self._order.append(info)
