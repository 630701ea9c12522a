"""From what stands in the launch form to a deployment, or to what is wrong with each field.

Pure. Paths and GPUs are on the node's machine, which may be another one: whether a folder or an
interpreter exists is the node's to say, and its refusal is shown in the form.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from engine.api.schema import LaunchOptions
from engine.model import ArgValue, DeploymentSpec, GpuChoice, SimulatedEngine

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
"""As in the config: names stand in URLs, file names and `name/index`."""
GPU_NAME = re.compile(r"gpu\d+")
CONTEXT_KEY = "max-model-len"
"""vLLM's argument that the context field stands for."""
MAX_REPLICAS = 64
"""Beyond any machine; a typing mistake would start hundreds of processes."""


class Field(StrEnum):
    """The fields, in the order in which they stand."""

    MODEL = "model"
    NAME = "name"
    PYTHON = "python"
    GPUS = "gpus"
    REPLICAS = "replicas"
    CONTEXT = "context"
    ARGUMENTS = "arguments"


class LaunchForm(msgspec.Struct, frozen=True):
    """What stands in the fields, as typed."""

    model: str = ""
    name: str = ""
    python: str = ""
    """Chosen interpreter, or a path typed by hand."""
    gpus: tuple[int, ...] = ()
    """Chosen GPUs by index."""
    as_one_group: bool = False
    """All chosen GPUs for one replica, rather than a replica on each."""
    replicas: str = "1"
    """Number of replicas; counts where no GPU is used."""
    context: str = ""
    """Longest prompt plus answer, tokens; empty leaves it to the model."""
    arguments: str = ""
    """One `key = value` a line, as in the config."""


class FormResult(msgspec.Struct, frozen=True):
    """A deployment when there are no problems."""

    deployment: DeploymentSpec | None
    problems: dict[Field, str]


def name_of(model: str) -> str:
    """A deployment's name for a model: the last part of its id or folder, in allowed characters."""
    last = model.strip().rstrip("/").rpartition("/")[2].lower()
    name = re.sub(r"[^a-z0-9._-]+", "-", last).strip("-._")[:63]
    return f"model-{name}" if GPU_NAME.fullmatch(name) else name


def uses_gpus(form: LaunchForm, options: LaunchOptions) -> bool:
    """Whether the chosen interpreter runs on GPUs; the simulator always does."""
    if options.simulated:
        return bool(options.gpus)
    cpu_builds = {interpreter.python for interpreter in options.interpreters if interpreter.cpu_build}
    return form.python.strip() not in cpu_builds and bool(options.gpus)


def read_form(form: LaunchForm, options: LaunchOptions, taken_names: Collection[str]) -> FormResult:
    """The deployment that the form describes, or what is wrong."""
    problems: dict[Field, str] = {}
    model, name = form.model.strip(), form.name.strip()
    if not model:
        problems[Field.MODEL] = "name a Hugging Face id or a folder with config.json"
    if (problem := _name_problem(name, taken_names)) is not None:
        problems[Field.NAME] = problem
    if not options.simulated and not form.python.strip():
        problems[Field.PYTHON] = "name the bin/python of an environment that has vLLM"
    on_gpus = uses_gpus(form, options)
    if on_gpus and not form.gpus:
        problems[Field.GPUS] = "choose at least one GPU"
    replicas = _count(form.replicas, MAX_REPLICAS)
    if not on_gpus and replicas is None:
        problems[Field.REPLICAS] = f"a whole number from 1 to {MAX_REPLICAS}"
    context = _count(form.context, 10**9)
    if form.context.strip() and context is None:
        problems[Field.CONTEXT] = "a whole number of tokens, such as 32768"
    arguments, problem = parse_arguments(form.arguments)
    if problem is None and context is not None:
        problem = _context_given_twice(arguments)
    simulated: SimulatedEngine | None = None
    if options.simulated and problem is None:
        simulated, problem = _simulated(arguments, context)
    if problem is not None:
        problems[Field.ARGUMENTS] = problem
    if problems:
        return FormResult(None, problems)
    args: dict[str, ArgValue] = {}
    if not options.simulated:
        args = ({CONTEXT_KEY: context} if context is not None else {}) | arguments
    deployment = DeploymentSpec(
        name=name,
        model=model,
        backend="simulated" if options.simulated else "vllm",
        gpus=_choices(form) if on_gpus else "all",
        replicas=None if on_gpus else replicas,
        python=None if options.simulated else form.python.strip(),
        args=args,
        simulated=simulated,
    )
    return FormResult(deployment, {})


def review_line(deployment: DeploymentSpec) -> str:
    """The exact outcome: `2 replicas of qwen on gpu0, gpu1, 32,768 tokens`."""
    choices = deployment.gpus if isinstance(deployment.gpus, list) else []
    count = len(choices) or deployment.replicas or 1
    noun = "replica" if count == 1 else "replicas"
    if deployment.backend == "simulated":
        noun = f"simulated {noun}"
    where = ", ".join(map(_place, choices)) or ("the CPU" if deployment.replicas else "all GPUs")
    context = deployment.args.get(CONTEXT_KEY)
    if deployment.simulated is not None:
        context = deployment.simulated.max_model_len
    tokens = f"{context:,} tokens" if isinstance(context, int) else "the model's own context length"
    return f"{count} {noun} of {deployment.name} on {where}, {tokens}"


def parse_arguments(text: str) -> tuple[dict[str, ArgValue], str | None]:
    """The advanced arguments, and what is wrong with them or None.

    Each line is TOML by itself, so that a mistake is told with its own line.
    """
    arguments: dict[str, ArgValue] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            parsed = tomllib.loads(line)
        except tomllib.TOMLDecodeError:
            return {}, f"line {number} is no `key = value`: text needs quotes, true and numbers none"
        for typed, value in parsed.items():
            key = typed.lstrip("-").replace("_", "-")
            if key in arguments:
                return {}, f"line {number}: {key} is given twice"
            try:
                arguments[key] = msgspec.convert(value, ArgValue)
            except msgspec.ValidationError:
                return {}, f"line {number}: {key} holds a value that no argument takes"
    return arguments, None


def _name_problem(name: str, taken: Collection[str]) -> str | None:
    if not NAME.fullmatch(name):
        return "1 to 63 of a-z, 0-9, dot, dash and underscore, a letter or digit first"
    if GPU_NAME.fullmatch(name):
        return "is how commands call a GPU; choose another name"
    return f"{name} runs already; choose another name" if name in taken else None


def _context_given_twice(arguments: Mapping[str, ArgValue]) -> str | None:
    return f"{CONTEXT_KEY} is set by the field above; keep one" if CONTEXT_KEY in arguments else None


def _count(text: str, most: int) -> int | None:
    digits = text.strip().replace(",", "").replace("_", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        return None
    return int(digits) if 1 <= int(digits) <= most else None


def _simulated(
    arguments: Mapping[str, ArgValue], context: int | None
) -> tuple[SimulatedEngine | None, str | None]:
    """Timing of the simulated engine; its keys are written with underscores."""
    fields: dict[str, Any] = {key.replace("-", "_"): value for key, value in arguments.items()}
    if context is not None:
        fields["max_model_len"] = context
    try:
        return msgspec.convert(fields, SimulatedEngine), None
    except msgspec.ValidationError as error:
        return None, f"{error}; a simulated engine takes the keys of the config's `simulated` table"


def _choices(form: LaunchForm) -> list[GpuChoice]:
    chosen = sorted(form.gpus)
    return [list[int | str](chosen)] if form.as_one_group and len(chosen) > 1 else list[GpuChoice](chosen)


def _place(choice: GpuChoice) -> str:
    if isinstance(choice, list):
        return "+".join(_place(gpu) for gpu in choice)
    return f"gpu{choice}" if isinstance(choice, int) else choice
