"""What the gateway adds to a streamed answer: a report, run as `python -m tests.bench.gateway_overhead`.

A scripted engine streams 64 events 5 ms apart. The same clients ask it directly over its Unix socket
and through a gateway in a process of its own. Both ways take turns within one run, and the figures to
compare are the ratios: absolute times differ by a third between runs on a busy machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop
from aiohttp import BaseConnector, ClientSession, TCPConnector, UnixConnector, web

from engine.gateway.server import Gateway
from engine.model import Endpoint
from engine.routing.replicas import Replica

EVENTS = 64
GAP_S = 0.005
CLIENTS = 16
ROUNDS = 4
TURNS = 3
REQUESTS = CLIENTS * TURNS * ROUNDS
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'


class SystemClock:
    """The real time."""

    def monotonic(self) -> float:
        return time.monotonic()

    def epoch(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def answer(request: web.Request) -> web.StreamResponse:
    await request.read()
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for _ in range(EVENTS):
        await response.write(EVENT)
        await asyncio.sleep(GAP_S)
    return response


async def run_engine(uds: str) -> None:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.UnixSite(runner, uds).start()
    print("up", flush=True)
    await asyncio.Event().wait()


async def run_gateway(uds: str) -> None:
    engine = Replica(
        name="bench/0",
        deployment="bench",
        model="bench",
        served_name="bench",
        endpoint=Endpoint(uds=uds),
        api_key="none",
        accepts=True,
        state="ready",
        generation=1,
    )
    replicas = (engine,)
    gateway = Gateway(lambda: replicas, SystemClock())
    print(await gateway.listen("127.0.0.1", 0), flush=True)
    await asyncio.Event().wait()


@contextlib.contextmanager
def process(role: str, uds: str) -> Iterator[tuple[int, str]]:
    """Run a role; yields its pid and its first line."""
    command = [sys.executable, "-m", "tests.bench.gateway_overhead", role, uds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield child.pid, child.stdout.readline().strip()
        finally:
            child.kill()


def cpu_s(pid: int) -> float:
    """Processor time used so far: fields 14 and 15 of /proc/PID/stat (proc_pid_stat(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def ask(session: ClientSession, url: str) -> float:
    """Time to the first byte of one streamed answer, read to its end."""
    began = time.perf_counter()
    async with session.post(url, json={"model": "bench", "messages": [], "stream": True}) as got:
        assert got.status == 200, await got.text()
        await got.content.readany()
        ttft_s = time.perf_counter() - began
        await got.read()
    return ttft_s


async def one_round(connector: BaseConnector, url: str) -> list[float]:
    """Each client asks three times in a row; they start evenly over the length of one answer."""

    async def client(session: ClientSession, number: int) -> list[float]:
        await asyncio.sleep(number / CLIENTS * EVENTS * GAP_S)
        return [await ask(session, url) for _ in range(TURNS)]

    async with ClientSession(connector=connector) as session:
        each = await asyncio.gather(*(client(session, number) for number in range(CLIENTS)))
    return [ttft_s for one in each for ttft_s in one]


async def measure(uds: str, engine: int, gateway: int, address: str) -> None:
    path = "/v1/chat/completions"
    direct: list[float] = []
    through: list[float] = []
    engine_s = gateway_s = 0.0
    for number in range(ROUNDS + 1):
        plain = await one_round(UnixConnector(uds), f"http://engine{path}")
        before = cpu_s(engine), cpu_s(gateway)
        routed = await one_round(TCPConnector(), f"http://{address}{path}")
        if number == 0:
            continue
        direct += plain
        through += routed
        engine_s += cpu_s(engine) - before[0]
        gateway_s += cpu_s(gateway) - before[1]
    print(f"{REQUESTS} requests of {EVENTS} events each way, {CLIENTS} at a time")
    for name, quantile in (("p50", 49), ("p95", 94)):
        a = statistics.quantiles(direct, n=100)[quantile] * 1e3
        b = statistics.quantiles(through, n=100)[quantile] * 1e3
        print(
            f"TTFT {name}: direct {a:6.2f} ms  gateway {b:6.2f} ms  added {b - a:6.2f} ms  ratio {b / a:.2f}"
        )
    print(
        f"CPU per request: engine {engine_s / REQUESTS * 1e3:.2f} ms  "
        f"gateway {gateway_s / REQUESTS * 1e3:.2f} ms  ratio {gateway_s / engine_s:.2f}"
    )


def main() -> None:
    if len(sys.argv) == 3:
        role, uds = sys.argv[1:]
        uvloop.run(run_engine(uds) if role == "engine" else run_gateway(uds))
        return
    with tempfile.TemporaryDirectory() as folder:
        uds = f"{folder}/e.sock"
        with process("engine", uds) as (engine, _), process("gateway", uds) as (gateway, address):
            uvloop.run(measure(uds, engine, gateway, address))


if __name__ == "__main__":
    main()
