"""Who can be asked, from a frame's engines."""

from __future__ import annotations

from cockpit.chat_targets import chat_targets, find_target, first_ready
from engine.model import EngineState, EngineView


def engine(name: str, state: EngineState, *, simulated: bool = False) -> EngineView:
    return EngineView(
        name=name,
        deployment=name.partition("/")[0],
        state=state,
        backend="vllm",
        simulated=simulated,
        model="m",
    )


ENGINES = (
    engine("qwen/0", EngineState.READY),
    engine("qwen/1", EngineState.STARTING),
    engine("moe/0", EngineState.FAILED, simulated=True),
)


def test_each_deployment_comes_routed_then_pinned() -> None:
    labels = [target.label for target in chat_targets(ENGINES)]

    assert labels == ["qwen routed", "qwen/0 pinned", "qwen/1 pinned", "moe routed", "moe/0 pinned"]


def test_routed_target_is_ready_while_one_replica_is() -> None:
    states = {target.key: (target.ready, target.state) for target in chat_targets(ENGINES)}

    assert states == {
        "qwen": (True, "1 of 2 ready"),
        "qwen/0": (True, "ready"),
        "qwen/1": (False, "starting"),
        "moe": (False, "failed"),
        "moe/0": (False, "failed"),
    }


def test_simulated_engines_are_marked() -> None:
    assert [target.key for target in chat_targets(ENGINES) if target.simulated] == ["moe", "moe/0"]


def test_saved_target_that_is_gone_is_kept_and_not_ready() -> None:
    targets = chat_targets(ENGINES)

    routed, pinned = find_target(targets, "llama"), find_target(targets, "llama/3")

    assert routed is not None
    assert (routed.deployment, routed.replica, routed.ready, routed.state) == ("llama", None, False, "gone")
    assert pinned is not None
    assert (pinned.deployment, pinned.replica) == ("llama", "llama/3")
    assert find_target(targets, "") is None


def test_new_conversation_asks_what_is_ready() -> None:
    first = first_ready(chat_targets(ENGINES[::-1]))

    assert first is not None
    assert first.key == "qwen"
    assert first_ready(()) is None
