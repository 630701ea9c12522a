"""The choice of a replica."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.model import Endpoint
from engine.routing.least_in_flight import (
    RETRY_LATE_S,
    RETRY_SOON_S,
    Ask,
    Chosen,
    Decision,
    NoneReady,
    UnknownModel,
    UnknownPin,
    choose,
)
from engine.routing.names import model_names
from engine.routing.replicas import Replica


def replica(name: str, *, accepts: bool = True, state: str = "ready") -> Replica:
    deployment = name.partition("/")[0]
    return Replica(
        name=name,
        deployment=deployment,
        model=f"org/{deployment}",
        served_name=deployment,
        endpoint=Endpoint(uds="/e.sock"),
        api_key="k",
        accepts=accepts,
        state=state,
        generation=1,
    )


def decide(
    ask: Ask,
    replicas: tuple[Replica, ...],
    in_flight: dict[str, int] | None = None,
    last_chosen: dict[str, int] | None = None,
) -> Decision:
    return choose(ask, replicas, model_names(replicas), in_flight or {}, last_chosen or {})


def chosen(decision: Decision) -> str:
    assert isinstance(decision, Chosen)
    return decision.replica.name


TWO = (replica("a/0"), replica("a/1"))


def test_the_fewest_open_requests_win() -> None:
    assert chosen(decide(Ask("a"), TWO, {"a/0": 2, "a/1": 1})) == "a/1"


def test_an_engine_without_a_count_has_none_open() -> None:
    assert chosen(decide(Ask("a"), TWO, {"a/0": 1})) == "a/1"


def test_a_tie_goes_to_the_one_chosen_longest_ago() -> None:
    assert chosen(decide(Ask("a"), TWO, last_chosen={"a/0": 7, "a/1": 3})) == "a/1"
    assert chosen(decide(Ask("a"), TWO, last_chosen={"a/0": 7})) == "a/1"


def test_an_idle_fleet_is_used_evenly() -> None:
    fleet = tuple(replica(f"a/{i}") for i in range(3))
    last: dict[str, int] = {}
    order = []
    for turn in range(6):
        name = chosen(decide(Ask("a"), fleet, last_chosen=last))
        last[name] = turn
        order.append(name)
    assert order == ["a/0", "a/1", "a/2"] * 2


def test_replicas_of_other_models_and_those_tried_are_left_out() -> None:
    fleet = (*TWO, replica("b/0"))
    assert chosen(decide(Ask("a", tried=frozenset({"a/0"})), fleet)) == "a/1"
    assert isinstance(decide(Ask("a", tried=frozenset({"a/0", "a/1"})), fleet), NoneReady)


def test_an_alias_is_resolved() -> None:
    assert chosen(decide(Ask("org/a"), TWO)) == "a/0"


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    assert decide(Ask("x"), (*TWO, replica("b/0"))) == UnknownModel(model="x", known=("a", "b"))


def test_a_pin_overrides_the_load() -> None:
    assert chosen(decide(Ask("a", pinned="a/0"), TWO, {"a/0": 9})) == "a/0"


def test_a_pin_of_another_model_or_of_nothing_is_refused() -> None:
    fleet = (*TWO, replica("b/0"))
    for pinned in ("b/0", "a/7"):
        assert decide(Ask("a", pinned=pinned), fleet) == UnknownPin(
            pinned=pinned, model="a", known=("a/0", "a/1")
        )


def test_a_pin_that_is_not_ready_is_refused_although_another_is() -> None:
    fleet = (replica("a/0", accepts=False, state="draining"), replica("a/1"))
    assert decide(Ask("a", pinned="a/0"), fleet) == NoneReady(
        model="a", states=(("a/0", "draining"),), retry_after_s=RETRY_SOON_S
    )


def test_the_retry_hint_is_short_while_anything_comes_up_and_long_else() -> None:
    def hint(*states: str) -> int:
        fleet = tuple(replica(f"a/{i}", accepts=False, state=state) for i, state in enumerate(states))
        decision = decide(Ask("a"), fleet)
        assert isinstance(decision, NoneReady)
        return decision.retry_after_s

    assert hint("failed", "starting") == RETRY_SOON_S
    assert hint("failed", "quarantined", "stopped") == RETRY_LATE_S


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(-1, 5)), min_size=1, max_size=8),
    st.sets(st.integers(0, 7)),
)
def test_what_is_chosen_accepts_and_nothing_else_is_better(
    rows: list[tuple[bool, int, int]], tried: set[int]
) -> None:
    fleet = tuple(replica(f"a/{i}", accepts=accepts) for i, (accepts, _, _) in enumerate(rows))
    load = {f"a/{i}": open_now for i, (_, open_now, _) in enumerate(rows)}
    last = {f"a/{i}": at for i, (_, _, at) in enumerate(rows)}
    able = [i for i, (accepts, _, _) in enumerate(rows) if accepts and i not in tried]
    decision = decide(Ask("a", tried=frozenset(f"a/{i}" for i in tried)), fleet, load, last)
    if not able:
        assert isinstance(decision, NoneReady)
    else:
        index = int(chosen(decision).partition("/")[2])
        assert index in able
        assert all(rows[index][1:] <= rows[i][1:] for i in able)
