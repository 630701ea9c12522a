"""The composition root: builds a node from its parts, and takes it down in order.

Only here and in `recording` do engine and storage meet.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvloop

from cockpit import __version__, node_process, paths
from cockpit.control import NodeControl, place_all
from cockpit.intent import ORIGIN, SECTIONS, Intent, read_intent
from cockpit.memory import NodeMemory
from cockpit.recording import StoreRecorder
from cockpit.settings import ConfigError
from cockpit.startup import DEFAULT_PROFILE, Start
from engine.api.frames import FrameHub
from engine.api.schema import ShutdownRequest
from engine.api.server import ApiServer
from engine.backends.known_interpreters import KnownInterpreters
from engine.errors import EngineError
from engine.event_bus import EventBus
from engine.events import NODE, Actor, Event, Severity
from engine.gateway.limits import GatewayLimits
from engine.gateway.server import Gateway
from engine.model import DeploymentSpec, EngineView, Frame, NodeView, ReplicaSpec
from engine.ports import GpuSource
from engine.simulator.gpus import SimulatedGpus
from engine.simulator.load import GentleLoad
from engine.simulator.profiles import profile as find_profile
from engine.supervisor import orphans
from engine.supervisor.ending import Grace
from engine.supervisor.fleet import Fleet
from engine.supervisor.lanes import StartLanes
from engine.supervisor.leftovers import end_leftovers
from engine.supervisor.process import EngineProcess
from engine.supervisor.readiness import HttpProbe
from engine.supervisor.surroundings import Surroundings
from engine.telemetry.nvml import NvmlGpus, nvml_available
from engine.telemetry.sampler import Sampler
from engine.telemetry.system_clock import SystemClock
from storage.errors import StorageError
from storage.store import open_store

log = logging.getLogger(__name__)


class StartRefusedError(Exception):
    """The node cannot be started as asked; nothing was changed."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def run_node(start: Start, report: Callable[[], None]) -> None:
    """Be the node until it is told to stop.

    Args:
        report: called once the API answers.

    Raises:
        StartRefusedError: bad config, no right to the folder, a port in use, a second node.
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    where = paths.find()
    lock = node_process.NodeLock(where)
    try:
        lock.acquire()
        uvloop.run(Node(where, start).run(report))
    except (node_process.NodeStartError, EngineError, ConfigError, StorageError) as error:
        raise StartRefusedError(error.message, error.hint) from error
    finally:
        lock.release()


class Node:
    """One node, from its start to its end. `run` is called once."""

    def __init__(self, where: paths.Paths, start: Start) -> None:
        self._where = where
        self._start = start
        self._clock = SystemClock()
        self._began = self._clock.monotonic()
        self._frames = FrameHub()

    async def run(self, report: Callable[[], None]) -> None:
        """Check everything, open everything, serve, and close in reverse order.

        Raises:
            EngineError, ConfigError, StorageError: it cannot be run; nothing was changed.
        """
        orphans.adopt()
        async with contextlib.AsyncExitStack() as stack:
            recorder = StoreRecorder(await stack.enter_async_context(open_store(self._where.database)))
            intent = await read_intent(
                self._start, self._where, recorder, os.environ, has_gpus=nvml_available()
            )
            recorder.store.keep_samples(intent.sections.storage.keep_samples_hours * 3600.0)
            root = Path(__file__).resolve().parent.parent
            known = KnownInterpreters(os.environ, sys.executable, str(root))
            gateway = Gateway(
                lambda: fleet.replicas(),
                self._clock,
                GatewayLimits(body_bytes=intent.sections.gateway.max_body_mib * 2**20),
            )
            bus = EventBus(recorder)
            fleet = Fleet(lambda changed: self._surroundings(changed, recorder, bus, gateway, known))
            gpus = self._gpu_source(intent, fleet.deployments)
            stack.push_async_callback(gpus.close)
            replicas = await self._place(intent, gpus, known)
            stack.push_async_callback(gateway.close)
            listen = await gateway.listen(*intent.listen)
            control = NodeControl(
                fleet=fleet,
                bus=bus,
                recorder=recorder,
                frames=self._frames,
                gateway=gateway,
                gpus=gpus,
                known=known,
                clock=self._clock,
                node=lambda: self._view(intent, recorder, gpus),
                simulated=intent.simulated,
                folder=_working_folder(),
            )
            api = ApiServer(control, NodeMemory(recorder.store), gateway.mount)
            stack.push_async_callback(api.close)
            await api.listen(self._where.api_socket, intent.sections.node.socket_group)

            wanted = await self._remember(intent, recorder, replicas)
            sampler = Sampler(
                gpus=gpus,
                engines=fleet.views,
                endpoints=fleet.endpoints,
                gateway=gateway.view,
                node=lambda: self._view(intent, recorder, gpus),
                clock=self._clock,
                publish=lambda frame: self._publish(frame, recorder),
            )
            async with asyncio.TaskGroup() as tasks:
                pump = tasks.create_task(bus.run(), name="events")
                if recorder.store.notice:
                    bus.post(
                        self._event("node.database_damaged", recorder.store.notice, severity=Severity.WARNING)
                    )
                bus.post(self._event("node.started", f"node started, gateway on {listen}"))
                await self._end_leftovers(recorder, bus)
                async with fleet:
                    for replica in replicas:
                        fleet.add(replica, wanted=wanted.get(replica.name, True))
                    background = [tasks.create_task(sampler.run(), name="sampler")]
                    load = GentleLoad(
                        intent.deployments,
                        f"http://{listen}",
                        self._clock,
                        accepts=lambda name: any(
                            r.accepts and r.deployment == name for r in fleet.replicas()
                        ),
                    )
                    traffic = tasks.create_task(load.run(), name="simulated load")
                    control.before_stop = lambda: _cancel(traffic)
                    self._obey_signals(control, tasks)
                    control.started.set()
                    report()
                    await control.stopped.wait()
                await pump
                for task in background:
                    task.cancel()
        log.info("node ended")

    def _gpu_source(self, intent: Intent, deployments: Callable[[], tuple[DeploymentSpec, ...]]) -> GpuSource:
        if not intent.simulated:
            return NvmlGpus(self._clock)
        gpus = find_profile(intent.profile or DEFAULT_PROFILE).gpus
        return SimulatedGpus(gpus, self._engines_now, deployments, self._clock)

    def _engines_now(self) -> tuple[EngineView, ...]:
        frame = self._frames.latest
        return frame.engines if frame else ()

    async def _place(
        self, intent: Intent, gpus: GpuSource, known: KnownInterpreters
    ) -> tuple[ReplicaSpec, ...]:
        await known.learn(intent.deployments)
        replicas = place_all(intent.deployments, await gpus.read(), known)
        for replica in replicas:
            known.backend(replica).check(replica)
        return replicas

    def _surroundings(
        self,
        changed: Callable[[], None],
        recorder: StoreRecorder,
        bus: EventBus,
        gateway: Gateway,
        known: KnownInterpreters,
    ) -> Surroundings:
        return Surroundings(
            backend=known.backend,
            spawn=EngineProcess.spawn,
            probe=HttpProbe,
            recorder=recorder,
            post=bus.post,
            clock=self._clock,
            traffic=gateway,
            lanes=StartLanes(),
            logs_dir=self._where.logs_dir,
            sockets_dir=self._where.engine_sockets_dir,
            changed=changed,
            jitter=random.random,
        )

    async def _remember(
        self, intent: Intent, recorder: StoreRecorder, replicas: tuple[ReplicaSpec, ...]
    ) -> dict[str, bool]:
        """Keep what is run for a start that resumes; returns which engines are wanted."""
        if intent.replaces:
            await recorder.replace_deployments(intent.deployments)
            await recorder.set_wanted([replica.name for replica in replicas], True)
        await recorder.set_setting(ORIGIN, intent.origin)
        await recorder.set_setting(SECTIONS, msgspec.json.encode(intent.sections).decode())
        return await recorder.wanted()

    async def _end_leftovers(self, recorder: StoreRecorder, bus: EventBus) -> None:
        """Engines of a node that died: ended before new ones take their GPUs."""
        for leftover, ended in await clear_leftovers(recorder, self._clock):
            if ended:
                bus.post(
                    self._event(
                        "engine.leftover_ended",
                        f"processes that an earlier node left behind and were ended: {ended}",
                        target=leftover,
                        severity=Severity.WARNING,
                    )
                )

    def _obey_signals(self, control: NodeControl, tasks: asyncio.TaskGroup) -> None:
        """SIGTERM and SIGINT stop the engines too: nobody would watch them afterwards."""
        by = Actor(name="signal", uid=os.getuid())

        def stop() -> None:
            tasks.create_task(control.shutdown(ShutdownRequest(reason="signal"), by), name="shutdown")

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        # A terminal that closes is no reason to stop: the node belongs to the machine.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _publish(self, frame: Frame, recorder: StoreRecorder) -> None:
        self._frames.publish(frame)
        recorder.record_frame(frame)

    def _view(self, intent: Intent, recorder: StoreRecorder, gpus: GpuSource) -> NodeView:
        return NodeView(
            name=intent.sections.node.name,
            pid=os.getpid(),
            version=__version__,
            uptime_s=self._clock.monotonic() - self._began,
            state_dir=str(self._where.state_dir),
            config=intent.origin or None,
            storage_problem=recorder.problem,
            gpu_problem=gpus.problem(),
        )

    def _event(
        self, kind: str, message: str, target: str = "node", severity: Severity = Severity.INFO
    ) -> Event:
        return Event(
            at_s=self._clock.epoch(), kind=kind, target=target, message=message, actor=NODE, severity=severity
        )


async def clear_leftovers(recorder: StoreRecorder, clock: SystemClock) -> list[tuple[str, int]]:
    """End what an earlier node left and record the ends: engine and number of processes, each."""
    leftovers = await recorder.leftovers()
    ended = await end_leftovers(leftovers, Grace())
    for leftover in leftovers:
        if not leftover.members():  # one that does not die is found again by the next start
            await recorder.launch_lost(leftover.launch_id, clock.epoch())
    return [(leftover.engine, ended[leftover.launch_id]) for leftover in leftovers]


def _working_folder() -> Path:
    """Where the node was started; its root when that folder is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
