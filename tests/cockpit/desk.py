"""A node without process, socket and GPUs: real store, bus and fleet, engines that are not real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cockpit.control import NodeControl
from cockpit.recording import StoreRecorder
from engine.api.frames import FrameHub
from engine.backends.known_interpreters import KnownInterpreters
from engine.event_bus import EventBus
from engine.events import Actor, Event
from engine.gateway.server import Gateway
from engine.model import DeploymentSpec, GpuReading, NodeView, ReplicaSpec
from engine.supervisor.fleet import Fleet
from engine.supervisor.inbox import Order
from storage.store import Store, open_store
from tests.engine.supervisor.fakes import FakeWorld, replica

ADA = Actor("ada", 1000)
NODE = NodeView(name="n", pid=1, version="0", uptime_s=1.0, state_dir="/s")
GPUS = tuple(
    GpuReading(index=i, uuid=f"GPU-{i:04d}-0000", name="g", at_s=0.0, simulated=True) for i in range(4)
)


class Gpus:
    """Four GPUs, of which the last cannot be read."""

    simulated = True

    async def read(self) -> tuple[GpuReading, ...]:
        return (*GPUS[:3], msgspec.structs.replace(GPUS[3], problem="lost"))

    def problem(self) -> str | None:
        return None

    async def close(self) -> None:
        pass


class Recorder(StoreRecorder):
    """A real one that says in which order it is used, and may have lost its disk."""

    def __init__(self, store: Store, order: list[str]) -> None:
        super().__init__(store)
        self.order = order
        self.durable = True
        self.gate: asyncio.Event | None = None

    async def record_event(self, event: Event) -> tuple[Event, bool]:
        if self.gate is not None and event.kind.startswith("action."):
            self.order.append(f"waits {event.kind}")
            await self.gate.wait()
        kept, durable = await super().record_event(event)
        self.order.append(event.kind)
        return kept, durable and self.durable

    async def set_wanted(self, engines: Sequence[str], wanted: bool) -> None:
        await super().set_wanted(engines, wanted)
        self.order.append(f"wanted={wanted}")

    async def keep_deployment(self, deployment: DeploymentSpec) -> None:
        await super().keep_deployment(deployment)
        self.order.append("kept")

    async def forget_deployment(self, name: str) -> None:
        await super().forget_deployment(name)
        self.order.append("forgotten")


class WatchedFleet(Fleet):
    """A real one that says when it is used."""

    order_of: list[str]

    def order(self, names: Sequence[str], order: Order) -> None:  # type: ignore[override]
        self.order_of.append(f"ordered {order}")
        super().order(names, order)


@dataclass
class Desk:
    """A node without process, socket and GPUs."""

    control: NodeControl
    recorder: Recorder
    bus: EventBus
    fleet: WatchedFleet
    world: FakeWorld
    frames: FrameHub
    order: list[str]

    @property
    def names(self) -> list[str]:
        return [view.name for view in self.fleet.views()]


def simulated_engine(index: int) -> ReplicaSpec:
    """One of two engines on the first two GPUs."""
    placed = replica(f"qwen/{index}", gpus=(index,))
    deployment = msgspec.structs.replace(placed.deployment, backend="simulated", gpus=[0, 1])
    return msgspec.structs.replace(placed, deployment=deployment)


@asynccontextmanager
async def desk_in(folder: Path, *, started: bool = True) -> AsyncIterator[Desk]:
    world, order, frames = FakeWorld(folder), list[str](), FrameHub()
    known = KnownInterpreters({}, "/python", "/root")
    async with open_store(folder / "c.db") as store:
        recorder = Recorder(store, order)
        bus = EventBus(recorder)
        gateway = Gateway(lambda: fleet.replicas(), world.clock)
        fleet = WatchedFleet(world.surroundings)
        fleet.order_of = order
        control = NodeControl(
            fleet=fleet,
            bus=bus,
            recorder=recorder,
            frames=frames,
            gateway=gateway,
            gpus=Gpus(),
            known=known,
            clock=world.clock,
            node=lambda: NODE,
            simulated=True,
            folder=folder,
        )
        if started:
            control.started.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bus.run())
            async with fleet:
                for index in range(2):
                    fleet.add(simulated_engine(index), wanted=True)
                await fleet.settle(["qwen/0", "qwen/1"])
                yield Desk(control, recorder, bus, fleet, world, frames, order)
            bus.close()
        await gateway.close()
