"""From the launch form's fields to a deployment, or to what is wrong with them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit import deployment_rules
from cockpit.launch_form import (
    NAME,
    Field,
    LaunchForm,
    name_of,
    parse_arguments,
    read_form,
    review_line,
    uses_gpus,
)
from engine.api.schema import Interpreter, LaunchOptions
from engine.model import DeploymentSpec, GpuReading, SimulatedEngine

GPUS = tuple(GpuReading(index=index, uuid=f"GPU-{index}", name="H100", at_s=0.0) for index in range(4))
REAL = LaunchOptions(
    interpreters=(Interpreter("/opt/vllm/bin/python", "0.32.0", cpu_build=False),), gpus=GPUS, simulated=False
)
CPU = LaunchOptions(
    interpreters=(Interpreter("/opt/cpu/bin/python", "0.32.0", cpu_build=True),), gpus=(), simulated=False
)
SIMULATED = LaunchOptions(interpreters=(), gpus=GPUS, simulated=True)
FILLED = LaunchForm(
    model="Qwen/Qwen3-8B", name="qwen", python="/opt/vllm/bin/python", gpus=(1, 0), context="32768"
)


def change(**fields: object) -> LaunchForm:
    return msgspec.structs.replace(FILLED, **fields)


def deployment(form: LaunchForm, options: LaunchOptions = REAL) -> DeploymentSpec:
    result = read_form(form, options, ())
    assert result.problems == {}
    assert result.deployment is not None
    return result.deployment


def problem(form: LaunchForm, field: Field, options: LaunchOptions = REAL) -> str:
    result = read_form(form, options, ("taken",))
    assert result.deployment is None
    assert list(result.problems) == [field]
    return result.problems[field]


def test_filled_form_becomes_a_deployment_with_a_replica_on_each_gpu() -> None:
    spec = deployment(change(arguments='enable-prefix-caching = true\ndtype = "bfloat16"\n'))

    assert spec == DeploymentSpec(
        name="qwen",
        model="Qwen/Qwen3-8B",
        gpus=[0, 1],
        python="/opt/vllm/bin/python",
        args={"max-model-len": 32768, "enable-prefix-caching": True, "dtype": "bfloat16"},
    )
    assert review_line(spec) == "2 replicas of qwen on gpu0, gpu1, 32,768 tokens"


def test_gpus_as_one_group_become_one_replica() -> None:
    spec = deployment(change(as_one_group=True, context=""))

    assert spec.gpus == [[0, 1]]
    assert "max-model-len" not in spec.args
    assert review_line(spec) == "1 replica of qwen on gpu0+gpu1, the model's own context length"


def test_cpu_build_takes_a_number_of_replicas_instead_of_gpus() -> None:
    form = change(python="/opt/cpu/bin/python", gpus=(), replicas="2")

    spec = deployment(form, CPU)

    assert not uses_gpus(form, CPU)
    assert (spec.gpus, spec.replicas) == ("all", 2)
    assert review_line(spec) == "2 replicas of qwen on the CPU, 32,768 tokens"


def test_simulated_node_gets_a_simulated_deployment() -> None:
    spec = deployment(change(python="", arguments="startup_s = 0.5\nkv-blocks = 512"), SIMULATED)

    assert spec.backend == "simulated"
    assert spec.python is None
    assert spec.args == {}
    assert spec.simulated == SimulatedEngine(max_model_len=32_768, startup_s=0.5, kv_blocks=512)
    assert review_line(spec) == "2 simulated replicas of qwen on gpu0, gpu1, 32,768 tokens"


def test_real_argument_on_a_simulated_node_is_told_where_it_stands() -> None:
    told = problem(change(arguments='dtype = "half"'), Field.ARGUMENTS, SIMULATED)

    assert "dtype" in told
    assert "simulated" in told


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"model": "  "}, Field.MODEL, "Hugging Face id"),
        ({"name": "Qwen 8B"}, Field.NAME, "a-z"),
        ({"name": "gpu1"}, Field.NAME, "GPU"),
        ({"name": "taken"}, Field.NAME, "taken runs already"),
        ({"python": ""}, Field.PYTHON, "bin/python"),
        ({"gpus": ()}, Field.GPUS, "at least one"),
        ({"context": "lots"}, Field.CONTEXT, "32768"),
        ({"context": "0"}, Field.CONTEXT, "32768"),
        ({"arguments": "x = 1\ndtype = half"}, Field.ARGUMENTS, "line 2"),
        ({"arguments": "x = 1\nx = 2"}, Field.ARGUMENTS, "x is given twice"),
        ({"arguments": "when = 2020-01-01"}, Field.ARGUMENTS, "when"),
        ({"arguments": "max_model_len = 9"}, Field.ARGUMENTS, "field above"),
    ],
)
def test_each_mistake_is_told_beside_its_field(fields: dict[str, object], field: Field, words: str) -> None:
    assert words in problem(change(**fields), field)


def test_number_of_replicas_is_checked_where_it_counts() -> None:
    form = change(python="/opt/cpu/bin/python", gpus=(), replicas="none")

    assert "1 to 64" in problem(form, Field.REPLICAS, CPU)
    assert deployment(change(replicas="none")).replicas is None


def test_all_mistakes_are_told_at_once() -> None:
    result = read_form(LaunchForm(context="x"), REAL, ())

    assert set(result.problems) == {Field.MODEL, Field.NAME, Field.PYTHON, Field.GPUS, Field.CONTEXT}


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Qwen/Qwen3-8B", "qwen3-8b"),
        ("/models/Llama 3.1_Instruct/", "llama-3.1_instruct"),
        ("gpu0", "model-gpu0"),
        ("", ""),
    ],
)
def test_name_is_derived_from_the_model(model: str, name: str) -> None:
    assert name_of(model) == name


@given(st.text(max_size=100))
def test_derived_name_is_allowed_or_empty(model: str) -> None:
    name = name_of(model)

    assert name == "" or NAME.fullmatch(name)


@given(st.text(max_size=60))
def test_any_text_of_arguments_is_read_or_refused_in_words(text: str) -> None:
    arguments, told = parse_arguments(text)

    assert told is None or arguments == {}


def test_names_are_those_that_the_config_allows() -> None:
    assert NAME.pattern == deployment_rules.NAME.pattern
