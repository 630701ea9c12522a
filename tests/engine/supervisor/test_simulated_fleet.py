"""The whole supervisor with nothing faked but the record: two engines as processes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from engine.backends.simulated import SimulatedBackend
from engine.events import Event
from engine.model import DeploymentSpec, ReplicaSpec, SimulatedEngine
from engine.supervisor import log_files, sessions
from engine.supervisor.backoff import RestartPolicy
from engine.supervisor.ending import Grace
from engine.supervisor.fleet import Fleet
from engine.supervisor.lanes import StartLanes
from engine.supervisor.process import EngineProcess
from engine.supervisor.readiness import HttpProbe
from engine.supervisor.surroundings import Surroundings
from engine.telemetry.system_clock import SystemClock
from tests.engine.supervisor.fakes import FakeRecorder, FakeTraffic
from tests.support.wait_until import wait_until

ROOT = str(Path(__file__).parents[3])
NAMES = ("sim/0", "sim/1")


async def test_two_engines_start_one_is_killed_and_comes_back_and_both_stop(short_folder: Path) -> None:
    recorder, clock = FakeRecorder(), SystemClock()
    events: list[Event] = []
    backend = SimulatedBackend(sys.executable, ROOT, os.environ)
    deployment = DeploymentSpec(
        name="sim", model="acme/tiny", backend="simulated", simulated=SimulatedEngine(startup_s=0.05)
    )

    async with Fleet(
        lambda changed: Surroundings(
            backend=lambda replica: backend,
            spawn=EngineProcess.spawn,
            probe=HttpProbe,
            recorder=recorder,
            post=events.append,
            clock=clock,
            traffic=FakeTraffic(clock),
            lanes=StartLanes(),
            logs_dir=short_folder / "logs",
            sockets_dir=short_folder / "run",
            changed=changed,
            jitter=lambda: 0.0,
            policy=RestartPolicy(base_s=0.1),
            grace=Grace(leader_s=8.0),
        )
    ) as fleet:
        for index, name in enumerate(NAMES):
            fleet.add(
                ReplicaSpec(name, deployment, index, (f"GPU-{index}",), (index,)),
                wanted=True,
            )
        try:
            await wait_until(lambda: [r.accepts for r in fleet.replicas()] == [True, True], 20.0)
            before = {view.name: view for view in fleet.views()}
            assert all(Path(str(r.endpoint.uds)).is_socket() for r in fleet.replicas())
            assert before["sim/0"].simulated

            victim = before["sim/0"]
            assert victim.pid is not None
            os.kill(victim.pid, signal.SIGKILL)
            await wait_until(lambda: fleet.views()[0].restarts == 1 and fleet.replicas()[0].accepts, 20.0)

            first, second = fleet.views()
            assert first.pid != victim.pid
            assert first.last_exit is not None
            assert first.last_exit.signal == "SIGKILL"
            assert second.pid == before["sim/1"].pid, "the other one never noticed"
            assert "engine.exited" in [event.kind for event in events if event.target == "sim/0"]
            assert log_files.folder(short_folder / "logs", "sim/0").is_dir()
            assert len(list((short_folder / "logs" / "sim-0").iterdir())) == 2
        finally:
            await fleet.shutdown()

    seen = {pid for _, pid in recorder.started}
    await wait_until(lambda: not any(p.session_id in seen for p in sessions.every_process()))
    assert [cause.kind for _, cause in recorder.ended] == ["signal", "requested", "requested"]
    assert list((short_folder / "run").iterdir()) == []
