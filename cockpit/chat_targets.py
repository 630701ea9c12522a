"""Who can be asked: every deployment by routing, and every replica by itself."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.model import EngineState, EngineView


class ChatTarget(msgspec.Struct, frozen=True):
    """A deployment (routed) or one replica of it (pinned)."""

    deployment: str
    """Model id at the gateway."""
    replica: str | None
    """Engine that must answer, or None for whichever the router picks."""
    ready: bool
    state: str
    """In words: `ready`, `2 of 3 ready`, `starting`, `gone`."""
    simulated: bool = False

    @property
    def key(self) -> str:
        """As saved with a conversation: `qwen`, or `qwen/0` when pinned."""
        return self.replica or self.deployment

    @property
    def label(self) -> str:
        """`qwen routed` or `qwen/0 pinned`."""
        return f"{self.key} pinned" if self.replica else f"{self.key} routed"


def chat_targets(engines: Sequence[EngineView]) -> tuple[ChatTarget, ...]:
    """Every target: each deployment, followed by its replicas, in the frame's order."""
    deployments: dict[str, list[EngineView]] = {}
    for engine in engines:
        deployments.setdefault(engine.deployment, []).append(engine)
    return tuple(
        target
        for deployment, replicas in deployments.items()
        for target in (_routed(deployment, replicas), *map(_pinned, replicas))
    )


def find_target(targets: Sequence[ChatTarget], key: str) -> ChatTarget | None:
    """The target saved under `key`; one that is gone comes back as such, None only for no key."""
    if not key:
        return None
    for target in targets:
        if target.key == key:
            return target
    deployment, slash, index = key.rpartition("/")
    if slash and index.isdigit():
        return ChatTarget(deployment, key, ready=False, state="gone")
    return ChatTarget(key, None, ready=False, state="gone")


def first_ready(targets: Sequence[ChatTarget]) -> ChatTarget | None:
    """What a new conversation asks: the first ready deployment, else the first at all."""
    ready = next((target for target in targets if target.ready), None)
    return ready or next(iter(targets), None)


def _routed(deployment: str, replicas: Sequence[EngineView]) -> ChatTarget:
    ready = sum(engine.state is EngineState.READY for engine in replicas)
    if ready == len(replicas):
        state = "ready"
    elif ready:
        state = f"{ready} of {len(replicas)} ready"
    else:
        state = replicas[0].state.value
    simulated = any(engine.simulated for engine in replicas)
    return ChatTarget(deployment, None, ready=ready > 0, state=state, simulated=simulated)


def _pinned(engine: EngineView) -> ChatTarget:
    ready = engine.state is EngineState.READY
    return ChatTarget(
        engine.deployment, engine.name, ready=ready, state=engine.state.value, simulated=engine.simulated
    )
