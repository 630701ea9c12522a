"""Commands and environments of both backends."""

from __future__ import annotations

import msgspec
import pytest

from engine.api.schema import Interpreter
from engine.backends.environment import MISLEADING, engine_environment
from engine.backends.simulated import SimulatedBackend
from engine.backends.vllm import NEEDS_TCP, VllmBackend
from engine.errors import SpecError
from engine.model import ArgValue, DeploymentSpec, Endpoint, ReplicaSpec, SimulatedEngine

KEY = "a-secret-key"
UDS = Endpoint(uds="/run/qwen-0.sock")
TCP = Endpoint(host="127.0.0.1", port=9000)
GPU = Interpreter(python="/opt/vllm/bin/python", vllm_version="0.32.0", cpu_build=False)
CPU = Interpreter(python="/opt/cpu/bin/python", vllm_version="0.32.0", cpu_build=True)


def replica(
    *,
    gpus: int = 1,
    args: dict[str, ArgValue] | None = None,
    env: dict[str, str] | None = None,
    port: int | None = None,
    python: str | None = None,
    cores: tuple[int, ...] = (),
) -> ReplicaSpec:
    return ReplicaSpec(
        name="qwen/0",
        deployment=DeploymentSpec(
            name="qwen", model="acme/tiny", args=args or {}, env=env or {}, port=port, python=python
        ),
        index=0,
        gpu_uuids=tuple(f"GPU-{n}" for n in range(gpus)),
        gpu_indexes=tuple(range(gpus)),
        cpu_cores=cores,
    )


def backend(found: Interpreter | None = GPU, inherited: dict[str, str] | None = None) -> VllmBackend:
    return VllmBackend(lambda python: found, inherited or {})


def test_the_command_of_a_gpu_build() -> None:
    plan = backend().plan(replica(args={"max_model_len": 4096}), UDS, KEY)
    assert plan.argv == (
        "/opt/vllm/bin/python",
        "-m",
        "vllm.entrypoints.cli.main",
        "serve",
        "acme/tiny",
        "--served-model-name",
        "qwen",
        "--uds",
        "/run/qwen-0.sock",
        "--device-ids",
        "GPU-0",
        "--max-model-len=4096",
        "--disable-access-log-for-endpoints=/health,/metrics,/v1/models",
    )
    assert (plan.endpoint, plan.served_name, plan.model_name, plan.version) == (
        UDS,
        "qwen",
        "acme/tiny",
        "0.32.0",
    )


def test_the_command_of_the_cpu_build_is_its_server_module() -> None:
    plan = backend(CPU).plan(replica(gpus=0, cores=(2, 3)), UDS, KEY)
    assert plan.argv[:4] == (
        "/opt/cpu/bin/python",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model=acme/tiny",
    )
    assert "--device-ids" not in plan.argv
    assert plan.env["VLLM_CPU_OMP_THREADS_BIND"] == "2,3"


def test_the_operators_own_binding_of_cores_wins() -> None:
    env = {"VLLM_CPU_OMP_THREADS_BIND": "0-7"}
    plan = backend(CPU).plan(replica(gpus=0, cores=(2, 3), env=env), UDS, KEY)
    assert plan.env["VLLM_CPU_OMP_THREADS_BIND"] == "0-7"


def test_cores_mean_nothing_to_a_gpu_build() -> None:
    assert "VLLM_CPU_OMP_THREADS_BIND" not in backend().plan(replica(cores=(1,)), UDS, KEY).env


def test_a_tcp_endpoint_is_said_in_full() -> None:
    plan = backend().plan(replica(port=9000), TCP, KEY)
    assert {"--host=127.0.0.1", "--port=9000"} <= set(plan.argv)
    assert "--uds" not in plan.argv


@pytest.mark.parametrize(("gpus", "expected"), [(1, None), (2, 2), (8, 8)])
def test_a_group_is_tensor_parallel_unless_told_otherwise(gpus: int, expected: int | None) -> None:
    argv = backend().plan(replica(gpus=gpus), UDS, KEY).argv
    said = [word for word in argv if word.startswith("--tensor-parallel-size")]
    assert said == ([f"--tensor-parallel-size={expected}"] if expected else [])
    assert argv[argv.index("--device-ids") + 1] == ",".join(f"GPU-{n}" for n in range(gpus))


def test_other_parallelism_fills_the_group() -> None:
    args: dict[str, ArgValue] = {"pipeline_parallel_size": 2, "data-parallel-size": 2}
    argv = backend().plan(replica(gpus=4, args=args), UDS, KEY).argv
    assert not any(word.startswith("--tensor-parallel-size") for word in argv)


@pytest.mark.parametrize(
    ("gpus", "args", "words"),
    [
        (2, {"tensor-parallel-size": 4}, "asks for 4 GPUs per replica, and gpus gives 2"),
        (1, {"tensor_parallel_size": 2}, "asks for 2 GPUs per replica, and gpus gives 1"),
        (2, {"tensor-parallel-size": True}, "whole numbers, not True"),
        (2, {"tensor-parallel-size": "2"}, "whole numbers, not '2'"),
        (2, {"pipeline-parallel-size": 0}, "whole numbers, not 0"),
        (1, {"served_model_name": "x"}, "args.served_model_name is set by the cockpit"),
        (1, {NEEDS_TCP: True}, f"args.{NEEDS_TCP} cannot listen on a Unix socket"),
    ],
)
def test_a_clash_names_the_key_and_a_remedy(gpus: int, args: dict[str, ArgValue], words: str) -> None:
    spec = replica(gpus=gpus, args=args)
    with pytest.raises(SpecError) as caught:
        backend().check(spec)
    assert words in caught.value.message
    assert caught.value.message.startswith("engine qwen")
    assert caught.value.hint
    with pytest.raises(SpecError):
        backend().plan(spec, UDS, KEY)


def test_the_one_mode_that_needs_tcp_gets_it_with_a_port() -> None:
    backend().check(replica(args={NEEDS_TCP: True}, port=9000))


@pytest.mark.parametrize("name", ["VLLM_API_KEY", "CUDA_VISIBLE_DEVICES", "VLLM_USE_RUST_FRONTEND"])
def test_a_variable_of_the_cockpits_own_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match=rf"env\.{name} is set by the cockpit"):
        backend().check(replica(env={name: "x"}))


@pytest.mark.parametrize("python", [None, "/opt/other/bin/python"])
def test_an_interpreter_without_vllm_is_named(python: str | None) -> None:
    with pytest.raises(SpecError, match=python or "no interpreter") as caught:
        backend(None).check(replica(python=python))
    assert "cockpit doctor" in caught.value.hint


def test_the_deployments_own_interpreter_is_asked_for() -> None:
    asked: list[str | None] = []

    def find(python: str | None) -> Interpreter:
        asked.append(python)
        return GPU

    VllmBackend(find, {}).plan(replica(python="/x/python"), UDS, KEY)
    assert asked == ["/x/python"]


def test_the_access_log_stays_as_the_operator_wants_it() -> None:
    args: dict[str, ArgValue] = {"disable-access-log-for-endpoints": "/ping"}
    assert "--disable-access-log-for-endpoints=/ping" in backend().plan(replica(args=args), UDS, KEY).argv
    off = backend().plan(replica(args={"disable-uvicorn-access-log": True}), UDS, KEY).argv
    assert not any(word.startswith("--disable-access-log-for") for word in off)


def test_planning_leaves_the_spec_as_it_was() -> None:
    spec = replica(gpus=2, args={"max-model-len": 1}, env={"A": "b"})
    before = msgspec.json.encode(spec)
    backend().plan(spec, UDS, KEY)
    assert msgspec.json.encode(spec) == before


@pytest.mark.parametrize("kind", ["vllm", "cpu", "simulated"])
def test_the_key_is_in_the_environment_and_never_in_the_command(kind: str) -> None:
    spec = replica(gpus=0 if kind == "cpu" else 1)
    inherited = {"VLLM_API_KEY": "the node's own"}
    plan = (
        SimulatedBackend("/usr/bin/python3", "/src", inherited).plan(spec, UDS, KEY)
        if kind == "simulated"
        else backend(CPU if kind == "cpu" else GPU, inherited).plan(spec, UDS, KEY)
    )
    assert plan.env["VLLM_API_KEY"] == KEY
    assert not any(KEY in word for word in plan.argv)


def test_the_environment_is_the_nodes_without_what_misleads() -> None:
    inherited = dict.fromkeys(MISLEADING, "x") | {
        "HOME": "/home/o",
        "HF_TOKEN": "t",
        "COCKPIT_HOME": "/state",
        "PATH": "/bin",
    }
    env = engine_environment(inherited, "/opt/vllm/bin/python", {"HF_HOME": "/hf"}, KEY)
    assert env == {
        "HOME": "/home/o",
        "HF_TOKEN": "t",
        "HF_HOME": "/hf",
        "PATH": "/opt/vllm/bin:/bin",
        "PYTHONUNBUFFERED": "1",
        "VLLM_API_KEY": KEY,
    }


def test_the_deployments_variables_win_except_over_the_key() -> None:
    own = {"PATH": "/mine", "PYTHONPATH": "/plug", "VLLM_API_KEY": "known to all", "PYTHONUNBUFFERED": "0"}
    env = engine_environment({"PYTHONPATH": "/cockpit"}, "/opt/bin/python", own, KEY)
    assert env == {"PATH": "/mine", "PYTHONPATH": "/plug", "VLLM_API_KEY": KEY, "PYTHONUNBUFFERED": "0"}


def test_a_path_is_there_even_if_the_node_has_none() -> None:
    assert engine_environment({}, "/opt/bin/python", {}, KEY)["PATH"].startswith("/opt/bin:/usr/local/bin:")


def simulated(timing: SimulatedEngine | None = None, **args: ArgValue) -> ReplicaSpec:
    spec = replica()
    deployment = msgspec.structs.replace(spec.deployment, backend="simulated", simulated=timing, args=args)
    return msgspec.structs.replace(spec, deployment=deployment)


def test_the_command_of_a_simulated_engine_is_one_that_it_understands() -> None:
    from engine.simulator.__main__ import _parser
    from engine.simulator.faults import parse_faults

    timing = SimulatedEngine(startup_s=0.5, faults=["ignore-sigterm", "slow-start=3"])
    plan = SimulatedBackend("/usr/bin/python3", "/src", {}).plan(simulated(timing), UDS, KEY)
    assert plan.argv[:4] == ("/usr/bin/python3", "-P", "-m", "engine.simulator")
    chosen = _parser().parse_args(plan.argv[4:])
    assert (chosen.uds, chosen.model, chosen.served_model_name) == (UDS.uds, "acme/tiny", "qwen")
    assert msgspec.json.decode(chosen.timing, type=SimulatedEngine) == timing
    parse_faults([*timing.faults, *chosen.fault])
    assert plan.env["PYTHONPATH"] == "/src"
    assert plan.version is None

    tcp = SimulatedBackend("/usr/bin/python3", "/src", {}).plan(simulated(), TCP, KEY)
    chosen = _parser().parse_args(tcp.argv[4:])
    assert (chosen.host, chosen.port, chosen.uds) == ("127.0.0.1", 9000, None)
    assert msgspec.json.decode(chosen.timing, type=SimulatedEngine) == SimulatedEngine()


def test_vllms_arguments_mean_nothing_to_a_simulated_engine() -> None:
    with pytest.raises(SpecError, match="args are vLLM's"):
        SimulatedBackend("/usr/bin/python3", "/src", {}).check(simulated(dtype="auto"))
    SimulatedBackend("/usr/bin/python3", "/src", {}).check(simulated())
