from __future__ import annotations

from collections import Counter, deque

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import SpecError
from engine.model import SimulatedEngine
from engine.simulator.blocks import keyed_hashes
from engine.simulator.timing import EngineModel, Finished, Request, StepResult

SMALL = SimulatedEngine(
    prefill_tokens_per_s=1_000.0,
    decode_base_s=0.01,
    decode_per_seq_s=0.001,
    kv_blocks=17,
    block_tokens=4,
    max_num_seqs=3,
    max_model_len=64,
)
"""Sixteen blocks of four tokens: a few sequences already fight for them."""

requests = st.lists(
    st.tuples(
        st.integers(1, 40),
        st.integers(1, 24),
        st.sampled_from(["", "a", "b"]),
        st.floats(0.0, 2.0),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)
"""Prompt tokens, answer tokens, prefix name, arrival, whether the client goes away half-way."""


def _request(name: str, prompt: int, output: int, prefix: str = "") -> Request:
    hashes = keyed_hashes(prefix, prompt, SMALL.block_tokens) if prefix else ()
    return Request(id=name, prompt_tokens=prompt, output_tokens=output, block_hashes=hashes)


def _drain(model: EngineModel, now: float = 0.0) -> list[StepResult]:
    results = []
    while (result := model.step(now)) is not None:
        results.append(result)
        now = result.ended_s
    return results


def _finished(results: list[StepResult]) -> dict[str, Finished]:
    return {finished.id: finished for result in results for finished in result.finished}


def _simulate(asked: list[tuple[int, int, str, float, bool]], budget: int) -> list[StepResult]:
    """Requests at their arrival times in virtual time, with the invariants checked at each step."""
    model = EngineModel(SMALL, token_budget=budget)
    coming = deque(sorted((case[3], index) for index, case in enumerate(asked)))
    cancelled = {f"r{index}" for index, (*_, cancel) in enumerate(asked) if cancel}
    results: list[StepResult] = []
    produced: Counter[str] = Counter()
    now = 0.0
    while coming or model.busy:
        while coming and coming[0][0] <= now:
            arrival, index = coming.popleft()
            prompt, output, prefix, *_ = asked[index]
            model.add(_request(f"r{index}", prompt, output, prefix), arrival)
        result = model.step(now)
        if result is None:
            now = coming[0][0]
            continue
        results.append(result)
        assert result.emitted or result.prefill_tokens
        assert result.ended_s > result.started_s
        assert model.running <= SMALL.max_num_seqs
        assert model.pool.free + model.pool.referenced == model.pool.usable
        now = result.ended_s
        for token in result.emitted:
            produced[token.id] += 1
            assert token.number == produced[token.id]
            assert token.gap_s > 0
        for name in list(cancelled):
            if produced[name]:
                cancelled.discard(name)
                model.cancel(name)
    assert model.pool.referenced == 0
    return results


@settings(deadline=None, max_examples=60)
@given(requests, st.integers(3, 64))
def test_every_request_ends_with_the_tokens_it_asked_for(
    asked: list[tuple[int, int, str, float, bool]], budget: int
) -> None:
    results = _simulate(asked, budget)
    finished = _finished(results)
    tokens = Counter(token.id for result in results for token in result.emitted)
    for index, (prompt, output, _, _, cancel) in enumerate(asked):
        name = f"r{index}"
        if cancel and name not in finished:
            assert 1 <= tokens[name] <= output
            continue
        assert finished[name].output_tokens == tokens[name] == output
        assert finished[name].prompt_tokens == prompt
        assert finished[name].cached_tokens < prompt
    hits = sum(result.cache_hits for result in results)
    assert hits <= sum(result.cache_queries for result in results)


@settings(deadline=None, max_examples=20)
@given(requests)
def test_equal_arrivals_give_equal_steps(asked: list[tuple[int, int, str, float, bool]]) -> None:
    assert _simulate(asked, 16) == _simulate(asked, 16)


def test_a_step_takes_what_the_formula_says() -> None:
    model = EngineModel(SMALL)
    model.add(_request("a", 40, 3), 0.0)
    prefill, decode, _ = _drain(model)
    assert prefill.ended_s == pytest.approx(40 / 1_000)
    assert prefill.emitted[0].gap_s == pytest.approx(40 / 1_000)
    assert decode.ended_s - decode.started_s == pytest.approx(0.01)


def test_a_decode_step_grows_with_the_batch() -> None:
    model = EngineModel(SMALL)
    for name in "abc":
        model.add(_request(name, 4, 3), 0.0)
    decode = _drain(model)[1]
    assert len(decode.emitted) == 3
    assert decode.ended_s - decode.started_s == pytest.approx(0.01 + 2 * 0.001)


def test_prompts_are_computed_in_chunks_of_the_budget_beside_decodes() -> None:
    model = EngineModel(SMALL, token_budget=10)
    model.add(_request("old", 4, 8), 0.0)
    model.step(0.0)
    model.add(_request("new", 20, 1), 0.0)
    mixed = [model.step(1.0), model.step(2.0), model.step(3.0)]
    assert [step and step.prefill_tokens for step in mixed] == [9, 9, 2]
    assert [step and [token.id for token in step.emitted] for step in mixed] == [
        ["old"],
        ["old"],
        ["old", "new"],
    ]
    assert mixed[0] is not None
    assert mixed[0].ended_s == pytest.approx(1.0 + 0.01 + 9 / 1_000)


def test_a_cached_prefix_need_not_be_computed_again() -> None:
    model = EngineModel(SMALL)
    model.add(_request("first", 32, 1, "shared"), 0.0)
    cold = _drain(model)
    model.add(_request("second", 32, 1, "shared"), 10.0)
    warm = _drain(model, 10.0)
    # The last block is computed even so, since its last token yields the next one.
    assert [step.prefill_tokens for step in cold] == [32]
    assert [step.prefill_tokens for step in warm] == [4]
    assert (warm[0].cache_queries, warm[0].cache_hits) == (32, 28)
    assert _finished(warm)["second"].cached_tokens == 28
    assert _finished(warm)["second"].prefill_s < _finished(cold)["first"].prefill_s


def test_an_answer_is_cached_for_the_next_turn() -> None:
    model = EngineModel(SMALL)
    conversation = keyed_hashes("conversation", 40, SMALL.block_tokens)
    model.add(Request("turn-1", 16, 17, conversation), 0.0)
    _drain(model)
    model.add(Request("turn-2", 40, 1, conversation), 10.0)
    assert _finished(_drain(model, 10.0))["turn-2"].cached_tokens == 32


def test_the_youngest_is_preempted_when_blocks_run_out_and_computed_again() -> None:
    model = EngineModel(SMALL)
    model.add(_request("old", 24, 30), 0.0)
    model.add(_request("young", 24, 30), 0.0)
    results = _drain(model)
    assert {name for result in results for name in result.preempted} == {"young"}
    finished = _finished(results)
    assert finished["young"].preemptions >= 1
    assert finished["old"].preemptions == 0
    assert finished["young"].output_tokens == 30
    assert sum(result.prefill_tokens for result in results) > 48
    assert sum(tokens for result in results for tokens, _ in result.prompts) == 48


def test_more_than_the_window_wait() -> None:
    model = EngineModel(SMALL)
    for name in "abcde":
        model.add(_request(name, 4, 2), 0.0)
    model.step(0.0)
    assert (model.running, model.waiting) == (3, 2)
    assert _finished(_drain(model, 1.0))["e"].queue_s >= 1.0


def test_a_cancelled_request_frees_its_blocks_wherever_it_is() -> None:
    model = EngineModel(SMALL)
    for name in "abcd":
        model.add(_request(name, 8, 8), 0.0)
    model.step(0.0)
    assert model.cancel("d")
    assert model.cancel("a")
    assert not model.cancel("a")
    assert (model.running, model.waiting, model.pool.referenced) == (2, 0, 4)


def test_kv_use_counts_what_sequences_hold_not_what_is_cached() -> None:
    model = EngineModel(SMALL)
    model.add(_request("a", 16, 2, "x"), 0.0)
    model.step(0.0)
    assert model.kv_used_ratio == 4 / 16
    model.step(1.0)
    assert model.kv_used_ratio == 0.0
    assert model.pool.evictable == 4


@pytest.mark.parametrize(("prompt", "output"), [(0, 1), (1, 0), (60, 5)])
def test_what_cannot_be_served_is_refused(prompt: int, output: int) -> None:
    with pytest.raises(ValueError, match="at most 64"):
        EngineModel(SMALL).add(_request("a", prompt, output), 0.0)


def test_a_request_id_in_use_is_refused() -> None:
    model = EngineModel(SMALL)
    model.add(_request("a", 4, 2), 0.0)
    with pytest.raises(ValueError, match="already"):
        model.add(_request("a", 4, 2), 0.0)


def test_a_cache_too_small_for_one_sequence_is_refused() -> None:
    with pytest.raises(SpecError, match="kv_blocks = 16 "):
        EngineModel(SimulatedEngine(kv_blocks=16, block_tokens=4, max_model_len=64))


def _until_preempted(model: EngineModel) -> StepResult:
    now = 0.0
    while (result := model.step(now)) is not None:
        if result.preempted:
            return result
        now = result.ended_s
    raise AssertionError("blocks never ran out")


def test_nothing_is_admitted_in_a_step_that_preempts() -> None:
    model = EngineModel(SMALL, token_budget=8)
    model.add(_request("old", 24, 30), 0.0)
    model.add(_request("young", 24, 30), 0.0)
    result = _until_preempted(model)
    # A chunk of the preempted prompt would fit into the blocks that it just gave back.
    assert (result.preempted, result.prefill_tokens) == (("young",), 0)
    assert (model.running, model.waiting) == (1, 1)


def test_a_preempted_sequence_goes_before_those_that_never_ran() -> None:
    model = EngineModel(msgspec.structs.replace(SMALL, max_num_seqs=2))
    for name in ("old", "young", "later"):
        model.add(_request(name, 24, 30), 0.0)
    preempting = _until_preempted(model)
    assert preempting.preempted == ("young",)
    after = [token.id for result in _drain(model, preempting.ended_s) for token in result.emitted]
    assert next(name for name in after if name != "old") == "young"


def test_a_preempted_sequence_is_computed_again_in_one_go_from_what_is_cached() -> None:
    model = EngineModel(SMALL)
    model.add(_request("old", 24, 30), 0.0)
    model.add(_request("young", 24, 30, "shared"), 0.0)
    preempting = _until_preempted(model)
    results = _drain(model, preempting.ended_s)
    produced = 30 - sum(token.id == "young" for result in results for token in result.emitted)
    recomputed = [result.prefill_tokens for result in results if result.prefill_tokens]
    # While the old one finished it took some of the blocks that the young one had left in the cache.
    assert len(recomputed) == 1
    assert 0 < recomputed[0] <= 24 + produced
    assert (24 + produced - recomputed[0]) % SMALL.block_tokens == 0
