"""One engine's life, owned by one task.

| state | what happens | next |
|---|---|---|
| stopped | start, restart | starting |
| starting | answers `/health` and `/v1/models` | ready |
| starting | ended, or took longer than `start_timeout_s` | stopping (what is left of it) |
| starting | stop, restart | stopping |
| ready | stop, restart | draining |
| ready | ended by itself, whatever its exit code | stopping (what is left of it) |
| draining | ended by itself, nothing in flight, `drain_timeout_s` over, or a second stop | stopping |
| stopping | no process of its session is left after a stop | stopped (restart: starting) |
| stopping | no process of its session is left after an accident | backoff, failed or quarantined |
| stopping | a process does not die | failed |
| backoff | its time comes, or start, restart | starting |
| backoff | stop | stopped |
| failed | start, restart (the same start would fail again, so nothing else) | starting |
| quarantined | start, restart (a crash loop: an operator must look) | starting |
| failed, quarantined | stop (seen and put away) | stopped |

Start where it starts or is ready, and stop where it is stopped, change nothing. What comes while it
drains or stops waits until that is done. A start that fails before there is a process skips stopping.
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
from engine.supervisor import address, log_files, milestones, sessions, startup
from engine.supervisor.backoff import History, delay_s, is_crash_loop, is_stable
from engine.supervisor.ending import end, end_rest
from engine.supervisor.exit_cause import explain
from engine.supervisor.inbox import Inbox, Interrupted, Order
from engine.supervisor.launch_refusal import refused
from engine.supervisor.surroundings import Running, Surroundings

DRAIN_LOOK_S = 0.25
"""Between looks for a second stop, or for the engine's end, while it drains."""
LAST_RECORD_S = 5.0
"""For a launch to be recorded when the node itself is ending."""
WAITS_FOR_GPU = "waiting for its GPU's turn"
RESTING = (EngineState.STOPPED, EngineState.FAILED, EngineState.QUARANTINED)


class EngineActor:
    """Runs one engine as its operator wants it."""

    def __init__(self, replica: ReplicaSpec, world: Surroundings, *, wanted: bool) -> None:
        self.replica = replica
        self._world = world
        self._wanted = wanted
        self._inbox = Inbox(self._is_idle)
        self._order: Order | None = None
        """What is being carried out; kept when that fails, and carried out again."""
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
        if self._inbox or self._order is not None:
            return False
        return self._state is EngineState.READY if self._wanted else self._state in RESTING

    def _has_process(self) -> bool:
        return self._process is not None

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

    def routed(self) -> Replica:
        """The engine as the gateway needs it, also while it does not run: its model is known, not ready."""
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
            if self._order is None:
                try:
                    if self._wanted:
                        await self._keep_running()
                    await self._inbox.unless_ordered(asyncio.Event().wait())
                except Interrupted:
                    pass
                self._order = self._inbox.take()
            order = self._order
            if order != "start":
                self._wanted = False
                await self._stop()
            if order in ("start", "restart"):
                self._history = History()
                self._restarts = 0
                self._wanted = True
            self._order = None
            if order == "shutdown":
                return

    async def _keep_running(self) -> None:
        """Launch, serve, and launch again after each accident; returns when that makes no more sense."""
        while True:
            if self._has_process():  # an earlier attempt did not get rid of it
                await self._end_process()
                if self._has_process():
                    self._give_up(EngineState.FAILED)
                    return
            cause = await self._launch_and_serve()
            if self._has_process() or not cause.retryable:
                self._give_up(EngineState.FAILED)
                return
            self._history = self._history.failed(self._world.clock.monotonic())
            if is_crash_loop(self._history, self._world.policy):
                self._give_up(EngineState.QUARANTINED)
                self._tell(
                    "engine.quarantined",
                    f"{len(self._history.failures_at)} failures in a row: not started again until you do",
                    Severity.ERROR,
                )
                return
            wait_s = delay_s(self._history, self._world.jitter(), self._world.policy)
            self._retry_at_s = self._world.clock.epoch() + wait_s
            self._enter(EngineState.BACKOFF)
            try:
                await self._inbox.unless_ordered(self._world.clock.sleep(wait_s))
            finally:
                self._retry_at_s = None
            self._restarts += 1

    async def _launch_and_serve(self) -> ExitCause:
        """One launch, from its turn on the GPUs until its end is dealt with: the cause of that end."""
        world, gpu_uuids = self._world, self.replica.gpu_uuids
        self._progress = WAITS_FOR_GPU if world.lanes.busy(gpu_uuids) else milestones.LAUNCHED
        self._enter(EngineState.STARTING)
        async with AsyncExitStack() as turn:
            await self._inbox.unless_ordered(turn.enter_async_context(world.lanes.turn(gpu_uuids)))
            self._show_progress(milestones.LAUNCHED)
            began = world.clock.monotonic()
            try:
                process, plan = self._spawn()
            except (EngineError, OSError) as error:
                cause: ExitCause | None = refused(error)
            else:
                cause = await self._start(process, plan)
            if cause is not None:
                # The turn is kept until it is gone: memory that comes free while a neighbour
                # measures its own breaks that one's start (vllm-project/vllm#56830).
                await self._clear(cause)
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
        cause = explain(code, log_files.tail(process.log_path))
        await self._clear(cause)
        return cause

    def _spawn(self) -> tuple[Running, LaunchPlan]:
        world, replica = self._world, self.replica
        backend = world.backend(replica)
        backend.check(replica)
        endpoint = address.claim(replica, world.sockets_dir)
        self._api_key = secrets.token_urlsafe(32)
        plan = backend.plan(replica, endpoint, self._api_key)
        self._generation += 1
        log_path = log_files.new_path(world.logs_dir, replica.name, world.clock.epoch(), self._generation)
        self._ended = self._launch_id = None
        self._process = process = world.spawn(plan, log_path)
        self._plan, self._endpoint = plan, endpoint
        log_files.prune(world.logs_dir, replica.name)
        return process, plan

    async def _start(self, process: Running, plan: LaunchPlan) -> ExitCause | None:
        """From a process to an engine that answers; the cause when it does not come so far."""
        await self._record_launch(process, plan)
        probe = self._world.probe(plan, self._api_key)
        limit_s = self.replica.deployment.start_timeout_s
        try:
            return await self._inbox.unless_ordered(
                startup.outcome(process, probe, self._world.clock, limit_s, self._show_progress)
            )
        except Interrupted:
            await self._end_process()  # while it has the GPU's turn, as in `_launch_and_serve`
            raise

    async def _record_launch(self, process: Running, plan: LaunchPlan) -> None:
        record = asyncio.ensure_future(
            self._world.recorder.launch_started(
                engine=self.replica.name,
                at_s=self._world.clock.epoch(),
                pid=process.pid,
                session_id=process.session_id,
                start_ticks=process.start_ticks,
                boot_id=sessions.boot_id(),
                log_path=str(process.log_path),
                argv=plan.argv,
            )
        )
        try:
            self._launch_id = await asyncio.shield(record)
        except asyncio.CancelledError:
            # The node is ending and leaves the engine: the next node must know of it.
            await asyncio.wait({record}, timeout=LAST_RECORD_S)
            record.cancel()
            raise
        self._tell("engine.launched", f"launched as pid {process.pid}")

    async def _clear(self, cause: ExitCause) -> None:
        """Leave nothing of a launch that ended by accident."""
        self._ended = self._last_exit = cause
        self._progress = None
        if self._has_process():
            self._enter(EngineState.STOPPING)
        self._tell("engine.exited", cause.summary, Severity.ERROR, reason=cause.hint or None)
        await self._remove_process()

    async def _stop(self) -> None:
        """Take it out of routing, let requests finish, end it."""
        if self._process is not None:
            if self._state is EngineState.READY:
                self._enter(EngineState.DRAINING)
                await self._drain(self._process)
            await self._end_process()
        self._progress = None
        self._enter(EngineState.FAILED if self._has_process() else EngineState.STOPPED)

    async def _end_process(self) -> None:
        self._progress = None
        self._enter(EngineState.STOPPING)
        await self._remove_process()
        if not self._has_process():
            self._tell("engine.stopped", "stopped; no process of it is left")

    async def _drain(self, process: Running) -> None:
        clock, traffic = self._world.clock, self._world.traffic
        deadline = clock.monotonic() + self.replica.deployment.drain_timeout_s
        while process.returncode() is None and clock.monotonic() < deadline:
            look_s = min(DRAIN_LOOK_S, deadline - clock.monotonic())
            if await traffic.wait_idle(self.replica.name, look_s):
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

    async def _remove_process(self) -> None:
        """End what is left of the launch, record its end, free its address; `_process` stays if it cannot."""
        process = self._process
        if process is None:
            return
        code = process.returncode()
        if self._ended is None and code is not None:  # it died while a stop was on its way
            self._ended = explain(code, log_files.tail(process.log_path))
        ending = end if code is None else end_rest
        survivors = await ending(process, self._world.grace)
        cause = self._ended = self._ended or explain(process.returncode(), (), asked_for=True)
        address.release(self._endpoint)
        self._endpoint = None
        if survivors:
            # Not recorded as ended: should the node end, the next one tries again.
            states = ", ".join(f"pid {p.pid} {p.command} in state {p.state}" for p in survivors)
            self._last_exit = ExitCause(
                kind="unresponsive",
                summary=f"does not die: {states}",
                hint="state D hangs in the driver: only a reset or reboot frees the GPU",
                retryable=False,
            )
            self._tell("engine.unresponsive", self._last_exit.summary, Severity.ERROR, self._last_exit.hint)
            return
        self._process = None
        self._last_exit = cause
        if self._launch_id is not None:
            await self._world.recorder.launch_ended(self._launch_id, self._world.clock.epoch(), cause)

    def _is_idle(self, order: Order) -> bool:
        """Whether an order asks for what is so already: it must not disturb a start under way."""
        if order == "start":
            return self._state in (EngineState.STARTING, EngineState.READY)
        return order == "stop" and self._state is EngineState.STOPPED and not self._wanted

    def _give_up(self, state: EngineState) -> None:
        self._wanted = False
        self._enter(state)

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
