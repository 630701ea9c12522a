"""One engine's life, owned by one task.

| state | what happens | next |
|---|---|---|
| stopped | start, restart | starting |
| starting | answers `/health` and `/v1/models` | ready |
| starting | ended, or took longer than `start_timeout_s` | backoff, failed or quarantined |
| starting | stop, restart | stopping |
| ready | stop, restart | draining |
| ready | ended by itself, whatever its exit code | backoff, failed or quarantined |
| draining | nothing in flight, or `drain_timeout_s` over, or a second stop | stopping |
| stopping | no process of its session is left | stopped (restart: starting) |
| stopping | a process does not die | failed |
| backoff | its time comes, or start | starting |
| backoff | stop | stopped |
| failed | start, restart (the same start would fail again, so nothing else) | starting |
| quarantined | start, restart (a crash loop: an operator must look) | starting |

Start where it starts or is ready, and stop where it is stopped, change nothing.
Others send a command and read `view()`; nobody else touches the fields.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack

from engine.backends.plan import LaunchPlan
from engine.errors import EngineError
from engine.events import Event, Severity
from engine.model import Endpoint, EngineState, EngineView, ExitCause, ReplicaSpec
from engine.routing.replicas import Replica
from engine.supervisor import address, log_files, milestones, sessions
from engine.supervisor.backoff import History, delay_s, is_crash_loop, is_stable
from engine.supervisor.ending import end, end_rest
from engine.supervisor.exit_cause import explain
from engine.supervisor.inbox import Inbox, Interrupted, Order
from engine.supervisor.surroundings import Running, Surroundings

FIRST_PROBE_S = 0.05
"""A simulated engine is up in a fraction of a second …"""
PROBE_CAP_S = 0.5
"""… and a real one takes a minute: an exponential ramp serves both."""
DRAIN_LOOK_S = 0.25


class EngineActor:
    """Runs one engine as its operator wants it."""

    def __init__(self, replica: ReplicaSpec, world: Surroundings, *, wanted: bool) -> None:
        self.replica = replica
        self._world = world
        self._wanted = wanted
        self._inbox = Inbox(self._is_idle)
        self._state = EngineState.STOPPED
        self._since_s = world.clock.epoch()
        self._progress: str | None = None
        self._retry_at_s: float | None = None
        self._process: Running | None = None
        self._plan: LaunchPlan | None = None
        self._endpoint: Endpoint | None = None
        self._api_key = ""
        self._launch_id: int | None = None
        self._generation = 0
        self._restarts = 0
        self._history = History()
        self._ended: ExitCause | None = None
        """Why the present process ended, once it has and before that is recorded."""
        self._last_exit: ExitCause | None = None

    @property
    def state(self) -> EngineState:
        """Where it is in its life."""
        return self._state

    @property
    def settled(self) -> bool:
        """True when nothing changes without a new command or an accident."""
        return (
            not self._inbox
            and self._state
            in (
                EngineState.STOPPED,
                EngineState.READY,
                EngineState.FAILED,
                EngineState.QUARANTINED,
            )
            and not (self._wanted and self._state is EngineState.STOPPED)
        )

    def command(self, order: Order) -> None:
        """Ask for something; `view()` shows what comes of it."""
        self._inbox.put(order)

    def view(self) -> EngineView:
        """The engine as it is now, without its metrics."""
        r, process = self.replica, self._process
        return EngineView(
            name=r.name,
            deployment=r.deployment.name,
            state=self._state,
            backend=r.deployment.backend,
            simulated=r.deployment.backend == "simulated",
            model=r.deployment.model,
            pid=process.pid if process else None,
            session_id=process.session_id if process else None,
            gpu_uuids=r.gpu_uuids,
            gpu_indexes=r.gpu_indexes,
            endpoint=self._endpoint.url if self._endpoint else None,
            open_to_local_users=self._endpoint.open_to_local_users if self._endpoint else None,
            progress=self._progress,
            since_s=self._since_s,
            retry_at_s=self._retry_at_s,
            restarts=self._restarts,
            launch_id=self._launch_id,
            in_flight=self._world.traffic.in_flight(r.name),
            last_exit=self._last_exit,
            vllm_version=self._plan.version if self._plan else None,
        )

    def routed(self) -> Replica | None:
        """The engine as the gateway needs it; None before its first launch."""
        if self._endpoint is None or self._plan is None:
            endpoint, key = Endpoint(), ""
        else:
            endpoint, key = self._endpoint, self._api_key
        return Replica(
            name=self.replica.name,
            deployment=self.replica.deployment.name,
            model=self.replica.deployment.model,
            served_name=self.replica.deployment.name,
            endpoint=endpoint,
            api_key=key,
            accepts=self._state is EngineState.READY,
            state=self._state.value,
            generation=self._generation,
        )

    def scraped(self) -> tuple[Endpoint, int] | None:
        """Where its metrics are, and of which launch; None while nothing answers."""
        if self._endpoint is None or self._state not in (EngineState.READY, EngineState.DRAINING):
            return None
        return self._endpoint, self._generation

    async def run(self) -> None:
        """Live until `shutdown`. When cancelled it leaves the engine running: only the node dies."""
        while True:
            try:
                if self._wanted:
                    await self._keep_running()
                await self._inbox.unless_ordered(asyncio.Event().wait())
            except Interrupted:
                pass
            order = self._inbox.take()
            if order == "start":
                self._forget_failures()
                self._wanted = True
                continue
            self._wanted = False
            await self._stop()
            if order == "shutdown":
                return
            if order == "restart":
                self._forget_failures()
                self._wanted = True

    async def _keep_running(self) -> None:
        """Launch, serve, and launch again after each accident; returns when that makes no more sense."""
        while True:
            cause = await self._launch_and_serve()
            survivors = await self._clear(cause)
            if survivors:
                self._enter(EngineState.FAILED)
                return
            if not cause.retryable:
                self._wanted = False
                self._enter(EngineState.FAILED)
                return
            now = self._world.clock.monotonic()
            self._history = self._history.failed(now, self._world.policy)
            if is_crash_loop(self._history, now, self._world.policy):
                self._wanted = False
                self._enter(EngineState.QUARANTINED)
                self._tell(
                    "engine.quarantined",
                    f"{len(self._history.failures_at)} failures in a row: not started again until you do",
                    Severity.ERROR,
                )
                return
            wait_s = delay_s(self._history, self._world.jitter(), self._world.policy)
            self._retry_at_s = self._world.clock.epoch() + wait_s
            self._enter(EngineState.BACKOFF)
            await self._inbox.unless_ordered(self._world.clock.sleep(wait_s))
            self._retry_at_s = None
            self._restarts += 1

    async def _launch_and_serve(self) -> ExitCause:
        """One launch, from its turn on the GPUs to its end."""
        world, replica = self._world, self.replica
        if self._process is not None and await self._remove_process():
            return self._last_exit or ExitCause(kind="unresponsive", summary="does not die", retryable=False)
        waits = world.lanes.busy(replica.gpu_uuids)
        self._progress = "waiting for its GPU's turn" if waits else milestones.LAUNCHED
        self._enter(EngineState.STARTING)
        began = world.clock.monotonic()
        async with AsyncExitStack() as turn:
            await self._inbox.unless_ordered(turn.enter_async_context(world.lanes.turn(replica.gpu_uuids)))
            self._progress = milestones.LAUNCHED
            try:
                process, plan = self._spawn()
            except (EngineError, OSError) as error:
                hint = error.hint if isinstance(error, EngineError) else ""
                message = error.message if isinstance(error, EngineError) else str(error)
                return ExitCause(kind="bad_argument", summary=message, hint=hint, retryable=False)
            await self._record_launch(process, plan)
            cause = await self._until_ready(process, plan)
        if cause is not None:
            return cause
        ready = world.clock.monotonic()
        self._progress = None
        self._enter(EngineState.READY)
        if self._launch_id is not None:
            await world.recorder.launch_ready(self._launch_id, world.clock.epoch())
        self._tell("engine.ready", f"ready after {ready - began:.1f} s")
        code = await self._inbox.unless_ordered(process.wait())
        if is_stable(world.clock.monotonic() - ready, ready - began, world.policy):
            self._history = History()
        return explain(code, log_files.tail(process.log_path))

    def _spawn(self) -> tuple[Running, LaunchPlan]:
        world, replica = self._world, self.replica
        backend = world.backend(replica)
        backend.check(replica)
        endpoint = address.claim(replica, world.sockets_dir)
        self._api_key = secrets.token_urlsafe(32)
        plan = backend.plan(replica, endpoint, self._api_key)
        self._generation += 1
        log_path = log_files.new_path(world.logs_dir, replica.name, world.clock.epoch(), self._generation)
        self._ended = None
        self._process = process = world.spawn(plan, log_path)
        self._plan, self._endpoint = plan, endpoint
        log_files.prune(world.logs_dir, replica.name)
        return process, plan

    async def _record_launch(self, process: Running, plan: LaunchPlan) -> None:
        self._launch_id = await self._world.recorder.launch_started(
            engine=self.replica.name,
            at_s=self._world.clock.epoch(),
            pid=process.pid,
            session_id=process.session_id,
            start_ticks=process.start_ticks,
            boot_id=sessions.boot_id(),
            log_path=str(process.log_path),
            argv=plan.argv,
        )
        self._tell("engine.launched", f"launched as pid {process.pid}")

    async def _until_ready(self, process: Running, plan: LaunchPlan) -> ExitCause | None:
        """Wait until the engine answers; its cause of death when it does not come so far."""
        clock = self._world.clock
        limit_s = self.replica.deployment.start_timeout_s
        deadline = clock.monotonic() + limit_s
        follower = log_files.Follower(process.log_path)
        probe = self._world.probe(plan, self._api_key)
        pause_s = FIRST_PROBE_S
        try:
            while True:
                code = process.returncode()
                if code is not None:
                    return explain(code, log_files.tail(process.log_path), during_start=True)
                self._show_progress(milestones.progress(follower.new_lines(), self._progress or ""))
                if await self._inbox.unless_ordered(probe.ready()) is None:
                    return None
                if clock.monotonic() > deadline:
                    return ExitCause(
                        kind="start_timeout",
                        summary=f"not ready after {limit_s:.0f} s; last seen {self._progress}",
                        hint="see its log; raise start_timeout_s if it only needs longer",
                    )
                await self._inbox.unless_ordered(clock.sleep(pause_s))
                pause_s = min(PROBE_CAP_S, pause_s * 1.5)
        finally:
            await probe.close()

    async def _clear(self, cause: ExitCause) -> tuple[sessions.Process, ...]:
        """Leave nothing of a launch that ended by accident; returns what would not die."""
        self._ended = cause
        self._last_exit = cause
        self._progress = None
        self._tell("engine.exited", cause.summary, Severity.ERROR, reason=cause.hint or None)
        return await self._remove_process()

    async def _stop(self) -> None:
        """Take it out of routing, let requests finish, end it."""
        world = self._world
        self._retry_at_s = None
        if self._process is not None:
            if self._state is EngineState.READY:
                self._enter(EngineState.DRAINING)
                await self._drain(self._process)
            self._enter(EngineState.STOPPING)
            if await self._remove_process():
                self._enter(EngineState.FAILED)
                return
            self._tell("engine.stopped", "stopped; no process of it is left")
        self._progress = None
        self._enter(EngineState.STOPPED)
        world.changed()

    async def _drain(self, process: Running) -> None:
        clock, traffic = self._world.clock, self._world.traffic
        deadline = clock.monotonic() + self.replica.deployment.drain_timeout_s
        while process.returncode() is None and clock.monotonic() < deadline:
            if await traffic.wait_idle(self.replica.name, DRAIN_LOOK_S):
                return
            if "stop" in self._inbox or "shutdown" in self._inbox:
                break
        left = traffic.in_flight(self.replica.name)
        if left:
            self._tell(
                "engine.drain_cut",
                f"{left} requests were still in flight when it was ended",
                Severity.WARNING,
            )

    async def _remove_process(self) -> tuple[sessions.Process, ...]:
        """End what is left of the launch, record its end, free its address."""
        process = self._process
        if process is None:
            address.release(self._endpoint)
            return ()
        code = process.returncode()
        accident = self._ended
        if accident is None and code is not None:
            accident = explain(code, log_files.tail(process.log_path))  # it died while a stop was on its way
        survivors = await (
            end(process, self._world.grace)
            if accident is None or process.returncode() is None
            else end_rest(process, self._world.grace)
        )
        cause = accident or explain(process.returncode(), (), asked_for=True)
        if survivors:
            states = ", ".join(f"pid {p.pid} {p.command} in state {p.state}" for p in survivors)
            cause = ExitCause(
                kind="unresponsive",
                summary=f"does not die: {states}",
                hint="state D hangs in the driver: only a reset or reboot frees the GPU",
                retryable=False,
            )
            self._tell("engine.unresponsive", cause.summary, Severity.ERROR, reason=cause.hint)
        self._last_exit = cause
        if self._launch_id is not None:
            await self._world.recorder.launch_ended(self._launch_id, self._world.clock.epoch(), cause)
        address.release(self._endpoint)
        if not survivors:
            self._process = None
        self._endpoint = None
        return survivors

    def _is_idle(self, order: Order) -> bool:
        """Whether an order asks for what is so already: it must not disturb a start under way."""
        if order == "start":
            return self._state in (EngineState.STARTING, EngineState.READY)
        return order == "stop" and self._state is EngineState.STOPPED and not self._wanted

    def _forget_failures(self) -> None:
        self._history = History()
        self._restarts = 0

    def _show_progress(self, progress: str) -> None:
        if progress != self._progress:
            self._progress = progress
            self._world.changed()

    def _enter(self, state: EngineState) -> None:
        self._state = state
        self._since_s = self._world.clock.epoch()
        self._world.changed()

    def _tell(
        self, kind: str, message: str, severity: Severity = Severity.INFO, reason: str | None = None
    ) -> None:
        self._world.post(
            Event(
                at_s=self._world.clock.epoch(),
                kind=kind,
                target=self.replica.name,
                message=message,
                severity=severity,
                reason=reason,
            )
        )
