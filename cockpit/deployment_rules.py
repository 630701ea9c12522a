"""What an `[[engine]]` may say that is well formed and still cannot run."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from cockpit.settings_rules import LAST_PORT, Problem
from cockpit.toml_lines import KeyPath
from engine.backends.argv import normalise
from engine.errors import SpecError
from engine.model import DeploymentSpec, SimulatedEngine

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
"""Deployment names stand in URLs, file names and `name/index`."""
GPU_NAME = re.compile(r"gpu\d+")
MAY_BE_ZERO = frozenset({"decode_per_seq_s", "startup_s", "load_rps", "weights_bytes"})
"""Figures of a simulated engine for which zero means something."""


def resolved(spec: DeploymentSpec, folder: Path) -> DeploymentSpec:
    """The deployment with `~` and paths relative to the config's folder made absolute.

    A `model` is a path when it is written as one (`./`, `../`, `/`, `~`) or names a folder there; any
    other is a Hugging Face id. A `python` with a slash is a path; without one it is looked for on PATH.
    """
    changes: dict[str, str] = {}
    if spec.python and ("/" in spec.python or spec.python.startswith("~")):
        changes["python"] = _absolute(spec.python, folder)
    if spec.backend == "vllm" and _is_folder(spec.model, folder):
        changes["model"] = _absolute(spec.model, folder)
    return msgspec.structs.replace(spec, **changes) if changes else spec


def _absolute(path: str, folder: Path) -> str:
    # Not resolve(): a virtual environment's python is a link, and only the link finds its packages.
    try:
        return os.path.normpath(folder / Path(path).expanduser())
    except RuntimeError:  # `~nobody`: no such user; the path is then reported as missing
        return os.path.normpath(folder / path)


def _is_folder(model: str, folder: Path) -> bool:
    written_as_path = model.startswith(("/", "./", "../", "~")) or model in (".", "..")
    return written_as_path or (bool(model) and _true(Path(folder, model).is_dir))


def _true(question: Callable[[], bool]) -> bool:
    """The answer of the file system, where a path that is too long or closed to us is a no."""
    try:
        return question()
    except OSError:
        return False


def deployment_problems(
    deployments: Sequence[DeploymentSpec], *, gateway_port: int | None, search_path: str | None
) -> Iterator[Problem]:
    """What is wrong with the deployments, one by one and together.

    Args:
        deployments: with absolute paths, as `resolved` gives them.
        gateway_port: the port that no engine may take; None or 0 when it is not yet known.
        search_path: PATH, where a bare `python` is looked for.
    """
    seen: dict[str, int] = {}
    taken = {gateway_port: "the gateway"} if gateway_port else {}
    for index, spec in enumerate(deployments):
        at: KeyPath = ("engine", index)
        yield from _name_problems(spec.name, at, seen.get(spec.name))
        seen.setdefault(spec.name, index)
        yield from _model_problems(spec, at)
        yield from _gpu_problems(spec, at)
        yield from _number_problems(spec, at)
        yield from _argument_problems(spec, at)
        if spec.python and not shutil.which(spec.python, path=search_path):
            yield Problem(
                (*at, "python"),
                f"{spec.python} does not exist or cannot be executed",
                "name the bin/python of an environment that has vLLM; `cockpit doctor` lists them",
            )
        yield from _port_problems(spec, at, taken)


def _name_problems(name: str, at: KeyPath, earlier: int | None) -> Iterator[Problem]:
    if not NAME.fullmatch(name):
        yield Problem(
            (*at, "name"),
            f"{name!r} is no deployment name",
            "use 1 to 63 of a-z, 0-9, dot, dash and underscore, a letter or digit first",
        )
    elif GPU_NAME.fullmatch(name):
        yield Problem((*at, "name"), f"{name!r} is how commands call a GPU", "choose another name")
    if earlier is not None:
        yield Problem(
            (*at, "name"),
            f"{name!r} is already the name of engine[{earlier}]",
            "every deployment needs its own; for more replicas use `gpus` or `replicas`",
        )


def _model_problems(spec: DeploymentSpec, at: KeyPath) -> Iterator[Problem]:
    if not spec.model.strip():
        yield Problem((*at, "model"), "is empty", "name a Hugging Face id or a folder with config.json")
    elif spec.backend == "vllm" and spec.model.startswith("/"):
        if not _true(Path(spec.model).is_dir):
            yield Problem((*at, "model"), f"there is no folder {spec.model}", "check the path")
        elif not _true(Path(spec.model, "config.json").is_file):
            yield Problem(
                (*at, "model"),
                f"{spec.model} has no config.json",
                "name the folder that holds the model's files",
            )


def _gpu_problems(spec: DeploymentSpec, at: KeyPath) -> Iterator[Problem]:
    here = (*at, "gpus")
    if isinstance(spec.gpus, str):
        if spec.gpus != "all":
            yield Problem(here, f"{spec.gpus!r} is no choice of GPUs", f'write "all" or ["{spec.gpus}"]')
        return
    if not spec.gpus or [] in spec.gpus:
        yield Problem(here, "names no GPU", 'write "all", [0, 1], or groups such as [[0, 1], [2, 3]]')
    single = [g for choice in spec.gpus for g in (choice if isinstance(choice, list) else [choice])]
    for gpu in dict.fromkeys(single):
        if isinstance(gpu, int) and gpu < 0:
            yield Problem(here, f"{gpu} is no GPU index", "indexes start at 0")
        if single.count(gpu) > 1:
            yield Problem(here, f"GPU {gpu} is given twice", "a GPU serves one replica of a deployment")


def _number_problems(spec: DeploymentSpec, at: KeyPath) -> Iterator[Problem]:
    if spec.replicas is not None and spec.replicas < 1:
        yield Problem((*at, "replicas"), f"must be at least 1, not {spec.replicas}", "stop it to run none")
    if not (spec.start_timeout_s > 0 and math.isfinite(spec.start_timeout_s)):
        yield Problem((*at, "start_timeout_s"), f"must be more than 0, not {spec.start_timeout_s:g}")
    if not (spec.drain_timeout_s >= 0 and math.isfinite(spec.drain_timeout_s)):
        yield Problem((*at, "drain_timeout_s"), f"must be 0 or more, not {spec.drain_timeout_s:g}")
    if spec.simulated is None:
        return
    if spec.backend != "simulated":
        yield Problem(
            (*at, "simulated"), "is for simulated engines", 'set backend = "simulated" or remove the table'
        )
    for key in SimulatedEngine.__struct_fields__:
        value = getattr(spec.simulated, key)
        if isinstance(value, list):
            continue
        if not math.isfinite(value) or value < 0 or (value == 0 and key not in MAY_BE_ZERO):
            least = "0 or more" if key in MAY_BE_ZERO else "more than 0"
            yield Problem((*at, "simulated", key), f"must be {least}, not {value:g}")


def _argument_problems(spec: DeploymentSpec, at: KeyPath) -> Iterator[Problem]:
    if spec.backend == "simulated" and spec.args:
        yield Problem((*at, "args"), "are vLLM's; a simulated engine has none", "use the `simulated` table")
        return
    seen: dict[str, str] = {}
    for key, value in spec.args.items():
        name = key.lstrip("-").replace("_", "-")
        if name in seen:
            yield Problem((*at, "args", key), f"is given twice, also as `{seen[name]}`", "keep one of them")
        seen.setdefault(name, key)
        try:
            normalise({key: value}, f"engine {spec.name}")
        except SpecError as error:
            said = error.message.removeprefix(f"engine {spec.name}.args.{key} ")
            yield Problem((*at, "args", key), said, error.hint)


def _port_problems(spec: DeploymentSpec, at: KeyPath, taken: dict[int, str]) -> Iterator[Problem]:
    """Ports out of range or taken; adds this deployment's to `taken`."""
    if spec.port is None:
        return
    replicas = spec.replicas or (len(spec.gpus) if isinstance(spec.gpus, list) else 1)
    if not 1 <= spec.port <= LAST_PORT - max(replicas, 1) + 1:
        yield Problem(
            (*at, "port"),
            f"{spec.port} for {replicas} replica{'s' if replicas > 1 else ''} is outside 1 to {LAST_PORT}",
            "replica i listens on port + i",
        )
        return
    for index in range(replicas):
        port = spec.port + index
        if port in taken:
            yield Problem(
                (*at, "port"),
                f"port {port} of {spec.name}/{index} is also that of {taken[port]}",
                "leave `port` out (engines then listen on Unix sockets), or choose another",
            )
        taken.setdefault(port, f"{spec.name}/{index}")
