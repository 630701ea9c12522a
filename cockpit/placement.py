"""Which replica of which deployment runs on which GPUs, or on which cores.

Pure: it is given what is there and what is asked for. GPUs are pinned by UUID, since the index order
differs between NVML and CUDA.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from engine.errors import PlacementError
from engine.model import ArgValue, DeploymentSpec, GpuReading, ReplicaSpec

LAST_PORT = 65_535


def place(
    deployments: Sequence[DeploymentSpec],
    gpus: Sequence[GpuReading],
    cores: Sequence[int],
    is_cpu_build: Callable[[DeploymentSpec], bool],
    gateway_port: int | None = None,
) -> tuple[ReplicaSpec, ...]:
    """Every replica of every deployment, in the order of the config.

    Args:
        deployments: checked by `cockpit.settings`.
        gpus: the GPUs of the machine, or simulated ones.
        cores: the cores that this process may use (`os.sched_getaffinity`).
        is_cpu_build: whether a deployment's interpreter has vLLM's CPU build.
        gateway_port: the port that no engine may take, where it is known.

    Raises:
        PlacementError: a GPU that does not exist, is given twice or cannot be shared; two engines on
            one port. Nothing is placed then.
    """
    on_cpu = [is_cpu_build(spec) for spec in deployments]
    cpu_replicas = sum(spec.replicas or 1 for spec, cpu in zip(deployments, on_cpu, strict=True) if cpu)
    shares = iter(core_shares(cores, cpu_replicas))
    placed: list[ReplicaSpec] = []
    for spec, cpu in zip(deployments, on_cpu, strict=True):
        if cpu:
            if spec.gpus != "all":
                raise PlacementError(
                    f"engine {spec.name} asks for GPUs, and its interpreter has the CPU build of vLLM",
                    "remove `gpus`, or set `python` to an interpreter with the CUDA build",
                )
            groups: list[list[GpuReading]] = [[] for _ in range(spec.replicas or 1)]
        else:
            groups = _gpu_groups(spec, gpus)
        for index, group in enumerate(groups):
            placed.append(
                ReplicaSpec(
                    name=f"{spec.name}/{index}",
                    deployment=spec,
                    index=index,
                    gpu_uuids=tuple(gpu.uuid for gpu in group),
                    gpu_indexes=tuple(gpu.index for gpu in group),
                    cpu_cores=next(shares) if cpu else (),
                )
            )
    _check_sharing(placed)
    _check_ports(placed, gateway_port)
    return tuple(placed)


def core_shares(cores: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """The cores cut into `count` disjoint runs whose lengths differ by one at most.

    With fewer cores than replicas nobody is bound: the system's scheduler balances what must share.
    """
    ordered = sorted(set(cores))
    if len(ordered) < count:
        return [()] * count
    cuts = [len(ordered) * index // count for index in range(count + 1)] if count else []
    return [tuple(ordered[start:end]) for start, end in itertools.pairwise(cuts)]


def _gpu_groups(spec: DeploymentSpec, gpus: Sequence[GpuReading]) -> list[list[GpuReading]]:
    """One group of GPUs per replica."""
    if not gpus:
        raise PlacementError(
            f"engine {spec.name} needs a GPU, and none can be read here",
            "set `python` to an interpreter with vLLM's CPU build, or try it simulated: "
            "`cockpit up --sim h100x8`",
        )
    if isinstance(spec.gpus, str):
        groups = [[gpu] for gpu in sorted(gpus, key=lambda gpu: gpu.index)]
    else:
        choices = (choice if isinstance(choice, list) else [choice] for choice in spec.gpus)
        groups = [[_find(wanted, gpus, spec.name) for wanted in choice] for choice in choices]
    seen: set[str] = set()
    for gpu in (gpu for group in groups for gpu in group):
        if gpu.uuid in seen:
            raise PlacementError(
                f"engine {spec.name}: GPU {gpu.index} ({gpu.uuid}) is given twice",
                "a GPU serves one replica of a deployment",
            )
        seen.add(gpu.uuid)
    if spec.replicas is not None and spec.replicas != len(groups):
        raise PlacementError(
            f"engine {spec.name}: replicas = {spec.replicas}, and `gpus` makes {len(groups)}",
            "remove `replicas`: on GPUs there is one per entry of `gpus`",
        )
    return groups


def _find(wanted: int | str, gpus: Sequence[GpuReading], name: str) -> GpuReading:
    """The GPU of an index, a UUID, or the beginning of one UUID."""
    if isinstance(wanted, int):
        found = [gpu for gpu in gpus if gpu.index == wanted]
    else:
        prefix = wanted.lower()
        exact = [gpu for gpu in gpus if gpu.uuid.lower() == prefix]
        found = exact or [gpu for gpu in gpus if prefix and gpu.uuid.lower().startswith(prefix)]
    if len(found) == 1:
        return found[0]
    candidates = found or sorted(gpus, key=lambda gpu: gpu.index)
    there = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in candidates)
    if found:
        raise PlacementError(
            f"engine {name}: {wanted!r} is the beginning of several GPUs: {there}", "write more of it"
        )
    raise PlacementError(f"engine {name}: there is no GPU {wanted!r}", f"there are {there}")


def _check_sharing(placed: Sequence[ReplicaSpec]) -> None:
    """Refuse several engines on a GPU unless each says how much of its memory it takes."""
    users: dict[str, list[ReplicaSpec]] = {}
    for replica in placed:
        for uuid in replica.gpu_uuids:
            users.setdefault(uuid, []).append(replica)
    for uuid, sharers in users.items():
        if len(sharers) == 1:
            continue
        names = " and ".join(replica.name for replica in sharers)
        index = sharers[0].gpu_indexes[sharers[0].gpu_uuids.index(uuid)]
        if any(replica.deployment.backend == "simulated" for replica in sharers):
            raise PlacementError(
                f"{names} are both on GPU {index}, and a simulated engine shares none",
                "give them different `gpus`, or free some: `cockpit engine remove DEPLOYMENT`",
            )
        total = 0.0
        for replica in sharers:
            share = memory_share(replica.deployment.args)
            if share is None:
                raise PlacementError(
                    f"{names} are on GPU {index}, and {replica.name} does not say how much memory it takes",
                    "give them different `gpus`, or set args.gpu-memory-utilization in each",
                )
            total += share
        if total > 1.0 + 1e-9:  # 0.3 + 0.3 + 0.4 is more than 1 in binary
            raise PlacementError(
                f"{names} take {total:.2f} of the memory of GPU {index} together",
                "lower args.gpu-memory-utilization until the sum is at most 1",
            )


def memory_share(args: Mapping[str, ArgValue]) -> float | None:
    """Ratio of a GPU's memory that arguments claim; 0 where the KV cache is in bytes, None if unsaid."""
    named = {key.lstrip("-").replace("_", "-"): value for key, value in args.items()}
    if "kv-cache-memory-bytes" in named:  # overrides the ratio
        return 0.0
    value = named.get("gpu-memory-utilization", named.get("device-memory-utilization"))
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _check_ports(placed: Sequence[ReplicaSpec], gateway_port: int | None) -> None:
    taken = {gateway_port: "the gateway"} if gateway_port else {}
    for replica in placed:
        if replica.deployment.port is None:
            continue
        port = replica.deployment.port + replica.index
        if port > LAST_PORT or port in taken:
            reason = f"that of {taken[port]} too" if port in taken else f"beyond {LAST_PORT}"
            raise PlacementError(
                f"port {port} of {replica.name} is {reason}",
                "leave `port` out (engines then listen on Unix sockets), or choose another",
            )
        taken[port] = replica.name
