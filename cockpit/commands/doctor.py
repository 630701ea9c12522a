"""`cockpit doctor`."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import shutil
import sys

import click
import msgspec

from cockpit import __version__, node_process, paths
from cockpit.commands.output import print_json
from cockpit.commands.session import FAILED


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at."""

    subject: str
    ok: bool | None
    """None: worth knowing, neither good nor bad."""
    detail: str
    hint: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(as_json: bool) -> None:
    """Examine this machine and say what is missing; exit status 1 when the cockpit cannot run."""
    findings = examine(paths.find())
    for finding in findings:
        if as_json:
            print_json(finding)
        else:
            mark = {True: "ok  ", False: "FAIL", None: "note"}[finding.ok]
            hint = f"; {finding.hint}" if finding.hint else ""
            click.echo(f"{mark}  {finding.subject:<14} {finding.detail}{hint}")
    if any(finding.ok is False for finding in findings):
        raise SystemExit(FAILED)


def examine(where: paths.Paths) -> list[Finding]:
    """Look at everything that the cockpit depends on; touches nothing but the state folder's write bit."""
    return [
        Finding("cockpit", True, f"{__version__} on Python {sys.version.split()[0]}"),
        *_packages(),
        _state_folder(where),
        _node(where),
        *asyncio.run(_gpus()),
        *asyncio.run(_interpreters()),
    ]


def _packages() -> list[Finding]:
    """Other distributions that bring packages of our names."""
    owners = importlib.metadata.packages_distributions()
    found = []
    for package in ("cockpit", "engine", "storage"):
        others = sorted(set(owners.get(package, [])) - {"vllm-cockpit"})
        if others:
            found.append(
                Finding(
                    "packages",
                    False,
                    f"`{package}` is also brought by {', '.join(others)}",
                    "install vllm-cockpit into an environment of its own",
                )
            )
    return found


def _state_folder(where: paths.Paths) -> Finding:
    folder = where.state_dir
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Finding(
            "state folder", False, f"{existing} is not writable", "set COCKPIT_HOME to another folder"
        )
    free_gib = shutil.disk_usage(existing).free / 2**30
    return Finding("state folder", True, f"{folder}, {free_gib:.0f} GiB free; sockets in {where.run_dir}")


def _node(where: paths.Paths) -> Finding:
    if node_process.running(where):
        return Finding("node", True, f"running as pid {node_process.holder(where)}")
    return Finding("node", None, "not running", "`cockpit up` starts it")


async def _gpus() -> list[Finding]:
    from engine.telemetry.nvml import NvmlGpus, nvml_available
    from engine.telemetry.system_clock import SystemClock

    if not nvml_available():
        return [
            Finding(
                "gpus", None, "no NVIDIA driver library here", "`cockpit up --sim h100x8` tries it without"
            )
        ]
    source = NvmlGpus(SystemClock())
    try:
        readings = await source.read()
        problem = source.problem()
    finally:
        await source.close()
    if problem:
        return [Finding("gpus", False, problem, "check the driver with nvidia-smi")]
    return [
        Finding("gpus", gpu.problem is None, f"gpu{gpu.index} {gpu.name} {gpu.uuid}", gpu.problem or "")
        for gpu in readings
    ] or [Finding("gpus", None, "the driver lists none")]


async def _interpreters() -> list[Finding]:
    from engine.backends.interpreters import find

    found = await find(os.environ)
    if not found:
        return [
            Finding(
                "vllm", None, "no interpreter with vLLM found", 'name one with python = "/path/to/bin/python"'
            )
        ]
    return [
        Finding("vllm", True, f"{i.python}: vLLM {i.vllm_version}" + (" (CPU build)" if i.cpu_build else ""))
        for i in found
    ]
