"""A world for actors in which nothing is real: processes, answers, records, requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from engine.backends.plan import Backend, LaunchPlan
from engine.errors import EngineError
from engine.events import Event
from engine.model import DeploymentSpec, Endpoint, EngineState, ExitCause, Frame, ReplicaSpec
from engine.ports import Clock
from engine.supervisor import sessions
from engine.supervisor.actor import EngineActor
from engine.supervisor.backoff import RestartPolicy
from engine.supervisor.ending import Grace
from engine.supervisor.lanes import StartLanes
from engine.supervisor.surroundings import Surroundings
from tests.support.fake_clock import FakeClock
from tests.support.wait_until import wait_until

FIRST_PID = 2**22 + 1
"""Above the kernel's largest pid: no signal sent to a fake ever reaches a process."""
GRACE = Grace(leader_s=5.0, children_s=0.05, orphans_s=0.05, kill_s=0.05)


class ImpatientClock:
    """Every sleep takes one turn of the loop: a whole life passes in a few dozen turns."""

    def __init__(self) -> None:
        self._now_s = 1_000.0

    def monotonic(self) -> float:
        return self._now_s

    def epoch(self) -> float:
        return self._now_s

    async def sleep(self, seconds: float) -> None:
        self._now_s += seconds
        await asyncio.sleep(0)


class FakeProcess:
    """Ends when told to: by `terminate`, unless `deaf`, or by the test's `exit`."""

    def __init__(self, pid: int, plan: LaunchPlan, log_path: Path, *, deaf: bool = False) -> None:
        self.pid = self.session_id = pid
        self.start_ticks = 1
        self.log_path = log_path
        self.plan = plan
        self.deaf = deaf
        self.terminations = 0
        self.children: tuple[sessions.Process, ...] = ()
        """What of its session does not end with it, nor by any signal."""
        self._code: int | None = None
        self._ended = asyncio.Event()

    @property
    def running(self) -> bool:
        return self._code is None

    def exit(self, code: int, *lines: str) -> None:
        """End now, with these last words."""
        if lines:
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            self.log_path.write_text("".join(f"{line}\n" for line in lines))
        self._code = code
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        assert self._code is not None
        return self._code

    def returncode(self) -> int | None:
        return self._code

    def members(self) -> tuple[sessions.Process, ...]:
        leader = sessions.Process(self.pid, "engine", "S", 1, self.session_id, 1)
        return (leader, *self.children) if self.running else self.children

    def terminate(self) -> None:
        self.terminations += 1
        if not self.deaf:
            self.exit(0)


class FakeProbe:
    """Answers what the world's `missing` says."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world
        self.closed = False

    async def ready(self) -> str | None:
        await asyncio.sleep(0)
        if self._world.hanging:
            await asyncio.Event().wait()
        return self._world.missing

    async def close(self) -> None:
        self.closed = True


@dataclass
class FakeRecorder:
    """Keeps launches in lists."""

    started: list[tuple[str, int]] = field(default_factory=list)
    """Engine and pid; a launch's id is its position, from 1."""
    ready: list[int] = field(default_factory=list)
    ended: list[tuple[int, ExitCause]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    """`started 1`, `ready 1`, `ended 1`, … as they came."""
    faults: int = 0
    """How many of the next ends cannot be recorded."""
    start_faults: int = 0
    """The same of starts."""

    async def record_event(self, event: Event) -> tuple[Event, bool]:
        return event, True

    async def launch_started(
        self,
        *,
        engine: str,
        at_s: float,
        pid: int,
        session_id: int,
        start_ticks: int,
        boot_id: str,
        log_path: str,
        argv: Sequence[str],
    ) -> int:
        for _ in range(3):
            await asyncio.sleep(0)
        if self.start_faults:
            self.start_faults -= 1
            raise RuntimeError("a bug in the recorder")
        self.started.append((engine, pid))
        self.order.append(f"started {len(self.started)}")
        return len(self.started)

    async def launch_ready(self, launch_id: int, at_s: float) -> None:
        await asyncio.sleep(0)
        self.ready.append(launch_id)
        self.order.append(f"ready {launch_id}")

    async def launch_ended(self, launch_id: int, at_s: float, cause: ExitCause) -> None:
        await asyncio.sleep(0)
        if self.faults:
            self.faults -= 1
            raise RuntimeError("a bug in the recorder")
        self.ended.append((launch_id, cause))
        self.order.append(f"ended {launch_id}")

    def record_frame(self, frame: Frame) -> None:
        raise AssertionError("the supervisor records no frames")


class FakeTraffic:
    """Requests in flight as the test sets them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.open: dict[str, int] = {}

    def in_flight(self, engine: str) -> int:
        return self.open.get(engine, 0)

    async def wait_idle(self, engine: str, timeout_s: float) -> bool:
        if self.in_flight(engine):
            await self._clock.sleep(timeout_s)
        return not self.in_flight(engine)


class FakeBackend:
    """Plans a command that nobody runs."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world

    def check(self, replica: ReplicaSpec) -> None:
        if self._world.refusal is not None:
            raise self._world.refusal

    def plan(self, replica: ReplicaSpec, endpoint: Endpoint, api_key: str) -> LaunchPlan:
        return LaunchPlan(
            argv=("engine", replica.name),
            env={"VLLM_API_KEY": api_key},
            endpoint=endpoint,
            served_name=replica.deployment.name,
            model_name=replica.deployment.model,
            version="0.32.0",
        )


class FakeWorld:
    """Builds `Surroundings`, and remembers what came of them."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.time = FakeClock()
        """What the test moves, unless another clock was given."""
        self.clock: Clock = clock or self.time
        self.folder = folder
        self.launched: list[FakeProcess] = []
        self.probes: list[FakeProbe] = []
        self.events: list[Event] = []
        self.recorder = FakeRecorder()
        self.traffic = FakeTraffic(self.clock)
        self.lanes = StartLanes()
        self.policy = RestartPolicy()
        self.missing: str | None = None
        """What a probe misses; None lets every engine become ready at once."""
        self.hanging = False
        """Probes get no answer at all."""
        self.deaf = False
        """Whether the next processes ignore SIGTERM."""
        self.refusal: EngineError | None = None
        self.on_spawn: Callable[[FakeProcess], None] = lambda process: None

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    @property
    def running(self) -> list[FakeProcess]:
        return [process for process in self.launched if process.running]

    def surroundings(self, changed: Callable[[], None] = lambda: None) -> Surroundings:
        return Surroundings(
            backend=self._backend,
            spawn=self._spawn,
            probe=self._probe,
            recorder=self.recorder,
            post=self.events.append,
            clock=self.clock,
            traffic=self.traffic,
            lanes=self.lanes,
            logs_dir=self.folder / "logs",
            sockets_dir=self.folder / "run",
            changed=changed,
            jitter=lambda: 1.0,
            policy=self.policy,
            grace=GRACE,
        )

    def _backend(self, replica: ReplicaSpec) -> Backend:
        return FakeBackend(self)

    def _spawn(self, plan: LaunchPlan, log_path: Path) -> FakeProcess:
        process = FakeProcess(FIRST_PID + len(self.launched), plan, log_path, deaf=self.deaf)
        self.launched.append(process)
        self.on_spawn(process)
        return process

    def _probe(self, plan: LaunchPlan, api_key: str) -> FakeProbe:
        self.probes.append(FakeProbe(self))
        return self.probes[-1]


@asynccontextmanager
async def living(
    world: FakeWorld, spec: ReplicaSpec | None = None, *, wanted: bool = True
) -> AsyncIterator[tuple[EngineActor, asyncio.Task[None]]]:
    """An actor at work, cancelled at the end."""
    actor = EngineActor(spec or replica(), world.surroundings(), wanted=wanted)
    task = asyncio.create_task(actor.run())
    try:
        yield actor, task
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()


async def reach(actor: EngineActor, state: EngineState) -> None:
    """Wait for a state."""
    await wait_until(lambda: actor.state is state)


def replica(
    name: str = "qwen/0",
    *,
    gpus: tuple[int, ...] = (0,),
    start_timeout_s: float = 60.0,
    drain_timeout_s: float = 10.0,
    port: int | None = None,
) -> ReplicaSpec:
    """An engine to be run."""
    deployment, _, index = name.partition("/")
    return ReplicaSpec(
        name=name,
        deployment=DeploymentSpec(
            name=deployment,
            model="acme/tiny",
            port=port,
            start_timeout_s=start_timeout_s,
            drain_timeout_s=drain_timeout_s,
        ),
        index=int(index),
        gpu_uuids=tuple(f"GPU-{n:04d}-0000" for n in gpus),
        gpu_indexes=gpus,
    )
