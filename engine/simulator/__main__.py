"""`python -m engine.simulator`: one simulated engine as a process."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
import time

import msgspec
from aiohttp import web

from engine.errors import SpecError
from engine.model import SimulatedEngine
from engine.simulator.faults import Faults, parse_faults
from engine.simulator.log import EngineLog
from engine.simulator.metrics import EngineMetrics
from engine.simulator.misbehaviour import Misbehaviour
from engine.simulator.pacer import Pacer
from engine.simulator.server import VERSION, EngineServer
from engine.simulator.startup import CORE_FAILED, OUT_OF_MEMORY, milestones
from engine.simulator.timing import EngineModel
from engine.telemetry.system_clock import SystemClock

FINISH_S = 5.0
"""How long requests under way may go on after SIGTERM."""
STATISTICS_S = 10.0
"""Pace of the statistics line: vLLM's `VLLM_LOG_STATS_INTERVAL`."""


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM.

    Returns:
        0 after SIGTERM or SIGINT, 1 when the start failed, 2 for bad arguments.
    """
    parser = _parser()
    chosen = parser.parse_args(arguments)
    try:
        timing = msgspec.json.decode(chosen.timing, type=SimulatedEngine)
        faults = parse_faults([*timing.faults, *chosen.fault])
        model = EngineModel(timing)
    except (msgspec.DecodeError, SpecError) as error:
        parser.error(str(error))
    if faults.bad_argument:
        parser.error("unrecognized arguments: --simulated-fault-bad-argument")
    log = EngineLog(sys.stdout)
    try:
        listener = _bind(chosen.uds, chosen.host, chosen.port)
    except OSError as error:
        log.plain(f"OSError: [Errno {error.errno}] {error.strerror}: {chosen.uds or chosen.port}")
        return 1
    with listener:
        return asyncio.run(_serve(chosen, model, faults, log, listener))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulator", description="A simulated vLLM engine: no model runs.")
    parser.add_argument("--uds", help="Unix socket to listen on; it must not exist yet")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--model", required=True, help="name of the model that is imitated")
    parser.add_argument("--served-model-name", help="model id; default: the model's name")
    parser.add_argument("--timing", default="{}", help="JSON of engine.model.SimulatedEngine")
    parser.add_argument(
        "--fault", action="append", default=[], help="see engine.simulator.faults; repeatable"
    )
    return parser


def _bind(uds: str | None, host: str, port: int) -> socket.socket:
    """Take the address at once, as vLLM does; connections are refused until it listens."""
    if uds:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(uds)
        return listener
    listener = socket.socket(socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    return listener


async def _serve(
    chosen: argparse.Namespace, model: EngineModel, faults: Faults, log: EngineLog, listener: socket.socket
) -> int:
    clock = SystemClock()
    misbehaviour = Misbehaviour(faults, log)
    stop = _stop_on_signal(misbehaviour, log)
    served_name: str = chosen.served_model_name or chosen.model
    metrics = EngineMetrics(served_name, model.timing, time.time())
    pacer = Pacer(model, metrics, clock)
    async with asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(_start(chosen.model, model.timing, faults, log), name="start")
        stopping = tasks.create_task(stop.wait(), name="stop")
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            log.plain("KeyboardInterrupt: terminated")
            return 0
        if not starting.result():
            stopping.cancel()
            return 1
        server = EngineServer(
            model=model,
            pacer=pacer,
            metrics=metrics,
            misbehaviour=misbehaviour,
            log=log,
            served_name=served_name,
            root=chosen.model,
            api_key=os.environ.get("VLLM_API_KEY") or None,
        )
        runner = web.AppRunner(
            server.application(),
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=FINISH_S,
        )
        background = (
            tasks.create_task(pacer.run(), name="pacer"),
            tasks.create_task(_log_statistics(model, metrics, log), name="statistics"),
        )
        await runner.setup()
        await web.SockSite(runner, listener).start()
        log.plain(f"INFO:     Started server process [{os.getpid()}]")
        log.plain("INFO:     Application startup complete.")
        await stopping
        log.plain("INFO:     Shutting down")
        await runner.cleanup()
        log.plain("INFO:     Application shutdown complete.")
        for task in background:
            task.cancel()
    return 0


async def _start(name: str, timing: SimulatedEngine, faults: Faults, log: EngineLog) -> bool:
    """Let the start take its time; False when a fault ends it."""
    duration_s = timing.startup_s + (faults.slow_start or 0.0)
    reached = 0.0
    for milestone in milestones(name, VERSION, timing, duration_s):
        await asyncio.sleep((milestone.share - reached) * duration_s)
        reached = milestone.share
        log.line(milestone.process, milestone.source, milestone.message)
        if faults.oom_at_start and "Starting to load model" in milestone.message:
            for line in OUT_OF_MEMORY:
                log.line("EngineCore", "core.py:1102", line, "ERROR")
            for line in CORE_FAILED:
                log.plain(line)
            return False
    await asyncio.sleep((1.0 - reached) * duration_s)
    return True


def _stop_on_signal(misbehaviour: Misbehaviour, log: EngineLog) -> asyncio.Event:
    stop = asyncio.Event()

    def terminate() -> None:
        if misbehaviour.faults.ignore_sigterm:
            log.line("APIServer", "launcher.py:251", "SIGTERM ignored (simulated fault)", "WARNING")
        else:
            stop.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, terminate)
    loop.add_signal_handler(signal.SIGINT, stop.set)
    return stop


async def _log_statistics(model: EngineModel, metrics: EngineMetrics, log: EngineLog) -> None:
    """vLLM's line of throughputs; nothing while the engine idles, as there."""
    before = metrics.totals
    while True:
        await asyncio.sleep(STATISTICS_S)
        now = metrics.totals
        prompt, generated, queries, hits = (new - old for new, old in zip(now, before, strict=True))
        before = now
        if not (prompt or generated or model.busy):
            continue
        log.line(
            "APIServer",
            "loggers.py:283",
            f"Engine 000: Avg prompt throughput: {prompt / STATISTICS_S:.1f} tokens/s, "
            f"Avg generation throughput: {generated / STATISTICS_S:.1f} tokens/s, "
            f"Running: {model.running} reqs, Waiting: {model.waiting} reqs, "
            f"GPU KV cache usage: {100 * model.kv_used_ratio:.1f}%, "
            f"Prefix cache hit rate: {100 * hits / queries if queries else 0.0:.1f}%",
        )


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
