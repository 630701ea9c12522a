"""All engines of the machine: who they are, who gets an order, what the gateway may use."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from engine.errors import StateError, UnknownTargetError
from engine.events import Event, Severity
from engine.model import DeploymentSpec, Endpoint, EngineView, ReplicaSpec
from engine.routing.replicas import Replica
from engine.supervisor.actor import EngineActor
from engine.supervisor.inbox import Order
from engine.supervisor.surroundings import Surroundings

log = logging.getLogger(__name__)

FAULT_PAUSE_S = 1.0
"""Before an actor that failed by a bug of ours is run again."""
MIN_UUID_PREFIX = 8
SETTLE_LOOK_S = 0.2


class Fleet:
    """Owner of the actors. An async context: leaving it cancels them and leaves the engines running."""

    def __init__(self, surroundings: Callable[[Callable[[], None]], Surroundings]) -> None:
        self._world = surroundings(self._on_change)
        self._actors: dict[str, EngineActor] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group = asyncio.TaskGroup()
        self._routed: tuple[Replica, ...] | None = None
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in tuple(self._tasks.values()):
            task.cancel()
        await self._group.__aexit__(kind, error, trace)

    def add(self, replica: ReplicaSpec, *, wanted: bool) -> None:
        """Take an engine on; it starts when wanted.

        Raises:
            StateError: there is one of that name.
        """
        if replica.name in self._actors:
            raise StateError(f"engine {replica.name} exists already", "choose another name")
        actor = EngineActor(replica, self._world, wanted=wanted)
        self._actors[replica.name] = actor
        self._tasks[replica.name] = self._group.create_task(self._live(actor), name=f"engine {replica.name}")
        self._on_change()

    async def discard(self, names: Iterable[str]) -> None:
        """Stop engines and forget them."""
        names = list(names)
        for name in names:
            self._actors[name].command("shutdown")
        # Not gather(): whoever gives up waiting must not cancel the supervision of engines.
        if tasks := [self._tasks[name] for name in names]:
            await asyncio.wait(tasks)

    async def shutdown(self) -> None:
        """Stop every engine; returns when no process of any is left."""
        await self.discard(list(self._actors))

    def order(self, names: Iterable[str], order: Order) -> None:
        """Tell engines what to do."""
        for name in names:
            self._actors[name].command(order)

    async def settle(self, names: Iterable[str]) -> None:
        """Wait until orders given to these engines have come to something."""
        names = list(names)
        while not all(self._actors[name].settled for name in names if name in self._actors):
            self._changed.clear()
            # An order that asks for what is so already changes nothing, so look again by ourselves.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_LOOK_S):
                    await self._changed.wait()

    def resolve(self, target: str) -> tuple[str, ...]:
        """Engines that a name means: an engine, a deployment, `gpuN`, or a GPU's UUID (8 characters do).

        Raises:
            UnknownTargetError: names the known ones.
        """
        if target in self._actors:
            return (target,)
        found = [n for n, a in self._actors.items() if a.replica.deployment.name == target]
        if not found and target.lower().startswith("gpu") and target[3:].isdigit():
            found = [n for n, a in self._actors.items() if int(target[3:]) in a.replica.gpu_indexes]
        if not found and len(target) >= MIN_UUID_PREFIX:
            found = [
                n for n, a in self._actors.items() if any(u.startswith(target) for u in a.replica.gpu_uuids)
            ]
        if not found:
            known = sorted({a.replica.deployment.name for a in self._actors.values()} | set(self._actors))
            raise UnknownTargetError(
                f"no engine, deployment or GPU is called {target}",
                f"known: {', '.join(known)}" if known else "nothing is deployed; `cockpit up -c FILE`",
            )
        return tuple(found)

    def views(self) -> tuple[EngineView, ...]:
        """Every engine now, without metrics, in the order of taking on."""
        return tuple(actor.view() for actor in self._actors.values())

    def specs(self) -> tuple[ReplicaSpec, ...]:
        """What is deployed."""
        return tuple(actor.replica for actor in self._actors.values())

    def deployments(self) -> tuple[DeploymentSpec, ...]:
        """What is deployed, each deployment once."""
        return tuple({r.deployment.name: r.deployment for r in self.specs()}.values())

    def replicas(self) -> tuple[Replica, ...]:
        """The gateway's table; the same object until something changes."""
        if self._routed is None:
            self._routed = tuple(actor.routed() for actor in self._actors.values())
        return self._routed

    def endpoints(self) -> Mapping[str, tuple[Endpoint, int]]:
        """Where metrics can be read, with the launch's number."""
        found = {name: actor.scraped() for name, actor in self._actors.items()}
        return {name: scraped for name, scraped in found.items() if scraped is not None}

    def _on_change(self) -> None:
        self._routed = None
        self._changed.set()

    async def _live(self, actor: EngineActor) -> None:
        while True:
            try:
                await actor.run()
                del self._actors[actor.replica.name], self._tasks[actor.replica.name]
                self._on_change()
                return
            except Exception:
                # One engine's supervision must not take the others down with it.
                log.exception("supervision of %s failed", actor.replica.name)
                self._world.post(
                    Event(
                        at_s=self._world.clock.epoch(),
                        kind="engine.supervision_fault",
                        target=actor.replica.name,
                        message="its supervision failed and begins anew; the node's log has the details",
                        severity=Severity.ERROR,
                    )
                )
                await self._world.clock.sleep(FAULT_PAUSE_S)
