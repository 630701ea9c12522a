"""What the API may ask of this node, carried out over its parts.

An operator's action is on disk before it is acknowledged: first the wish and the event, then the order.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from cockpit.placement import place
from cockpit.recording import StoreRecorder
from cockpit.settings import ConfigError, check_deployments
from cockpit.views import with_readings
from engine.api import schema
from engine.api.frames import FrameHub
from engine.api.log_chunk import read_chunk
from engine.backends import interpreters
from engine.backends.known_interpreters import KnownInterpreters
from engine.errors import SpecError, StateError, UnknownTargetError
from engine.event_bus import EventBus, Subscription
from engine.events import Actor, Event
from engine.gateway.server import Gateway
from engine.model import DeploymentSpec, GpuReading, HostView, NodeView, ReplicaSpec
from engine.ports import Clock, GpuSource
from engine.supervisor.fleet import Fleet

MAX_LOG_CHUNK_BYTES = 1024 * 1024


class NodeControl:
    """Satisfies `engine.api.control.Control`; conversations and settings are in `NodeMemory`."""

    def __init__(
        self,
        *,
        fleet: Fleet,
        bus: EventBus,
        recorder: StoreRecorder,
        frames: FrameHub,
        gateway: Gateway,
        gpus: GpuSource,
        known: KnownInterpreters,
        clock: Clock,
        node: Callable[[], NodeView],
        simulated: bool,
        folder: Path,
    ) -> None:
        """`folder`: where relative paths of deployments begin."""
        self._fleet = fleet
        self._bus = bus
        self._recorder = recorder
        self._frames = frames
        self._gateway = gateway
        self._gpus = gpus
        self._known = known
        self._clock = clock
        self._node = node
        self._simulated = simulated
        self._folder = folder
        self.before_stop: Callable[[], Awaitable[None]] | None = None
        """Ends what sends requests by itself, so that draining is not in vain."""
        self._stopped_by: Actor | None = None
        self._removals: set[asyncio.Task[None]] = set()
        self._launching = asyncio.Lock()
        self._operating = asyncio.Lock()
        """Held from an action's record to its order, so that two cannot interleave."""
        self.started = asyncio.Event()
        """Set once engines can be taken on; what operators ask before waits for it."""
        self.stopped = asyncio.Event()
        """Set once no engine is left and the node may end."""

    # What it is now.

    def status(self) -> schema.StatusReply:
        """Engines of this moment with the readings of the last frame."""
        frame = self._frames.latest
        return schema.StatusReply(
            api_version=schema.API_VERSION,
            node=self._node(),
            simulated=self._simulated,
            gpus=frame.gpus if frame else (),
            engines=with_readings(self._fleet.views(), frame),
            gateway=self._gateway.view(),
            host=frame.host if frame else HostView(),
        )

    async def stream(self, after_event: int | None) -> AsyncGenerator[schema.StreamLine, None]:
        """Frames, latest wins; events, every one, those since `after_event` first."""
        async with self._bus.subscribe() as events:
            yield schema.HelloLine(api_version=schema.API_VERSION, node=self._node())
            last = 0
            if after_event is not None:
                last = after_event if await self._has_reached(after_event) else 0
                while history := await self._recorder.events_after(last):
                    for event in history:
                        yield schema.EventLine(event)
                        last = event.id or last
            async with aclosing(self._live(events, last)) as lines:
                async for line in lines:
                    yield line
        if self._stopped_by is not None:
            yield schema.StoppingLine(by=self._stopped_by.name)

    async def _has_reached(self, event_id: int) -> bool:
        """False for an id of another history: its database was damaged and has been set aside."""
        newest = await self._recorder.events(1, None, None)
        return bool(newest) and (newest[0].id or 0) >= event_id

    async def _live(self, events: Subscription, last: int) -> AsyncGenerator[schema.StreamLine, None]:
        number = 0
        next_event = asyncio.ensure_future(events.queue.get())
        next_frame = asyncio.ensure_future(self._frames.after(number))
        try:
            while True:
                await asyncio.wait({next_event, next_frame}, return_when=asyncio.FIRST_COMPLETED)
                if next_event.done():
                    event = next_event.result()
                    if event is None:
                        return
                    if (event.id or 0) > last:  # what the history had already is not said twice
                        yield schema.EventLine(event)
                    next_event = asyncio.ensure_future(events.queue.get())
                if next_frame.done():
                    number, frame = next_frame.result()
                    yield schema.FrameLine(frame)
                    next_frame = asyncio.ensure_future(self._frames.after(number))
        finally:
            next_event.cancel()
            next_frame.cancel()

    # What happened.

    async def events(self, limit: int, before: int | None, target: str | None) -> tuple[Event, ...]:
        """Past events, newest first."""
        return await self._recorder.events(limit, before, target)

    async def launches(self, engine: str | None, limit: int) -> tuple[schema.Launch, ...]:
        """Past and present launches, newest first."""
        return await self._recorder.launches(engine, limit)

    async def log(self, engine: str, launch: int | None, offset: int, limit: int) -> schema.LogChunk:
        """A piece of a launch's log."""
        found = await self._recorder.launch(engine, launch)
        if found is None:
            self._fleet.resolve(engine)  # a name that means nothing is told with the known ones
            which = "has not been launched yet" if launch is None else f"has no launch {launch}"
            raise UnknownTargetError(f"engine {engine} {which}", "see `cockpit engines`")
        ended = found.ended_at_s is not None
        path, most = Path(found.log_path), min(limit, MAX_LOG_CHUNK_BYTES)
        try:
            return await asyncio.to_thread(read_chunk, path, found.id, offset, most, ended=ended)
        except OSError as error:
            raise UnknownTargetError(
                f"the log of launch {found.id} of {engine} cannot be read: {error.strerror}",
                "only the newest logs of an engine are kept",
            ) from error

    # What operators do.

    async def act(self, action: schema.EngineAction, by: Actor) -> schema.ActionReply:
        """Start, stop or restart engines."""
        await self.started.wait()
        async with self._operating:
            self._refuse_while_stopping()
            names = self._fleet.resolve(action.target)
            await self._recorder.set_wanted(names, action.action != "stop")
            event, durable = await self._bus.record(
                self._event(
                    f"action.{action.action}",
                    action.target,
                    f"{action.action} {', '.join(names)}",
                    by,
                    action.reason,
                )
            )
            self._fleet.order(names, action.action)
        if action.wait:
            await self._fleet.settle(names)
        return schema.ActionReply(event=event, durable=durable, engines=names)

    async def launch(self, request: schema.LaunchRequest, by: Actor) -> schema.ActionReply:
        """Add a deployment; it is checked like one of the config, and nothing is kept if it is refused."""
        await self.started.wait()
        self._refuse_while_stopping()
        async with self._launching:
            spec, replicas = await self._placed(request.deployment)
            names = tuple(replica.name for replica in replicas)
            async with self._operating:
                self._refuse_while_stopping()
                await self._recorder.keep_deployment(spec)
                await self._recorder.set_wanted(names, True)
                event, durable = await self._bus.record(
                    self._event(
                        "action.launch",
                        spec.name,
                        f"launch {', '.join(names)} with {spec.model}",
                        by,
                        request.reason,
                    )
                )
                for replica in replicas:
                    self._fleet.add(replica, wanted=True)
        return schema.ActionReply(event=event, durable=durable, engines=names)

    async def remove(self, deployment: str, by: Actor) -> schema.ActionReply:
        """Forget a deployment; its engines drain and stop meanwhile."""
        await self.started.wait()
        async with self._operating:
            self._refuse_while_stopping()
            names = tuple(r.name for r in self._fleet.specs() if r.deployment.name == deployment)
            if not names:
                self._fleet.resolve(deployment)
                raise UnknownTargetError(f"{deployment} is no deployment", "name one, not an engine or a GPU")
            await self._recorder.forget_deployment(deployment)
            event, durable = await self._bus.record(
                self._event("action.remove", deployment, f"remove {', '.join(names)}", by, None)
            )
            removal = asyncio.create_task(self._discard(names), name=f"remove {deployment}")
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)
        return schema.ActionReply(event=event, durable=durable, engines=names)

    async def launch_options(self) -> schema.LaunchOptions:
        """Interpreters with vLLM, and the GPUs."""
        found = await interpreters.find(os.environ)
        frame = self._frames.latest
        return schema.LaunchOptions(
            interpreters=found, gpus=frame.gpus if frame else (), simulated=self._simulated
        )

    async def shutdown(self, request: schema.ShutdownRequest, by: Actor) -> None:
        """Stop every engine, then let the node end. A second call waits for the first."""
        await self.started.wait()
        if self._stopped_by is not None:
            await self.stopped.wait()
            return
        self._stopped_by = by
        async with self._operating:  # what was acknowledged before is in order before the end
            await self._bus.record(
                self._event("action.shutdown", "node", "stop every engine and the node", by, request.reason)
            )
        if self.before_stop is not None:
            await self.before_stop()
        await asyncio.gather(*self._removals)
        await self._fleet.shutdown()
        self._bus.close()
        self.stopped.set()

    # Inner works.

    async def _discard(self, names: Sequence[str]) -> None:
        """Those that are still there: a deployment may be removed twice while its engines drain."""
        present = {replica.name for replica in self._fleet.specs()}
        await self._fleet.discard([name for name in names if name in present])

    async def _placed(self, wish: DeploymentSpec) -> tuple[DeploymentSpec, tuple[ReplicaSpec, ...]]:
        """The new deployment with absolute paths, and where its replicas go.

        Raises:
            EngineError: it cannot be run here.
        """
        present = {replica.deployment.name: replica.deployment for replica in self._fleet.specs()}
        if wish.name in present:
            raise StateError(
                f"a deployment called {wish.name} exists", "choose another name, or remove it first"
            )
        if (wish.backend == "simulated") is not self._simulated:
            raise SpecError(
                "simulated and real engines cannot share a node",
                "run the other kind in another state folder (COCKPIT_HOME)",
            )
        listen = self._gateway.view().listen
        try:
            *_, spec = check_deployments(
                (*present.values(), wish),
                folder=self._folder,
                gateway_port=int(listen.rpartition(":")[2]) if listen else None,
                environment=os.environ,
            )
        except ConfigError as error:
            raise SpecError(error.message, error.hint) from error
        await self._known.learn((spec,))
        gpus = await self._gpus.read()
        replicas = place_all((*present.values(), spec), gpus, self._known)
        mine = tuple(replica for replica in replicas if replica.deployment.name == spec.name)
        for replica in mine:
            self._known.backend(replica).check(replica)
        return spec, mine

    def _refuse_while_stopping(self) -> None:
        if self._stopped_by is not None:
            raise StateError(
                f"the node is being stopped by {self._stopped_by.name}", "`cockpit up` once it is down"
            )

    def _event(self, kind: str, target: str, message: str, by: Actor, reason: str | None) -> Event:
        return Event(
            at_s=self._clock.epoch(), kind=kind, target=target, message=message, actor=by, reason=reason
        )


def place_all(
    deployments: tuple[DeploymentSpec, ...], gpus: tuple[GpuReading, ...], known: KnownInterpreters
) -> tuple[ReplicaSpec, ...]:
    """Where every replica goes; GPUs that cannot be read are not used.

    Raises:
        PlacementError: as `cockpit.placement.place`.
    """
    usable = [gpu for gpu in gpus if gpu.problem is None]
    return place(deployments, usable, sorted(os.sched_getaffinity(0)), known.is_cpu_build)
