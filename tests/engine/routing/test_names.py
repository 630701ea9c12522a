"""Model names and aliases."""

from __future__ import annotations

from engine.model import Endpoint
from engine.routing.names import ModelName, model_names
from engine.routing.replicas import Replica


def replica(name: str, model: str) -> Replica:
    return Replica(
        name=name,
        deployment=name.partition("/")[0],
        model=model,
        served_name="s",
        endpoint=Endpoint(uds="/e.sock"),
        api_key="k",
        accepts=False,
        state="stopped",
        generation=1,
    )


def test_deployments_are_listed_once_each_in_order_ready_or_not() -> None:
    names = model_names([replica("b/0", "m/b"), replica("b/1", "m/b"), replica("a/0", "m/a")])
    assert names.listing == (ModelName("b", "m/b"), ModelName("a", "m/a"))
    assert names.ids == ("b", "a")


def test_a_model_is_an_alias_while_one_deployment_has_it() -> None:
    names = model_names([replica("a/0", "m/x"), replica("a/1", "m/x")])
    assert names.deployment("m/x") == "a"
    assert names.entry("m/x") == ModelName("a", "m/x")


def test_a_model_of_two_deployments_is_no_alias() -> None:
    names = model_names([replica("a/0", "m/x"), replica("b/0", "m/x")])
    assert names.deployment("m/x") is None
    assert names.entry("m/x") is None
    assert names.deployment("a") == "a"


def test_a_deployments_own_name_wins_over_anothers_model() -> None:
    names = model_names([replica("a/0", "b"), replica("b/0", "m/y")])
    assert names.deployment("b") == "b"


def test_without_replicas_nothing_is_known() -> None:
    assert model_names([]).deployment("a") is None
