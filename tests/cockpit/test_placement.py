from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.placement import core_shares, memory_share, place
from engine.errors import PlacementError
from engine.model import ArgValue, DeploymentSpec, GpuChoice, GpuReading, ReplicaSpec


def gpu(index: int, uuid: str | None = None) -> GpuReading:
    return GpuReading(index=index, uuid=uuid or f"GPU-{index}abc", name="H100", at_s=0.0)


FOUR = tuple(gpu(index) for index in range(4))


def spec(name: str = "qwen", **changes: object) -> DeploymentSpec:
    return DeploymentSpec(name=name, model="m", **changes)  # type: ignore[arg-type]


def put(
    *deployments: DeploymentSpec,
    gpus: tuple[GpuReading, ...] = FOUR,
    cores: tuple[int, ...] = (0, 1),
    cpu: bool = False,
    gateway_port: int | None = None,
) -> tuple[ReplicaSpec, ...]:
    return place(deployments, gpus, cores, lambda _: cpu, gateway_port)


def indexes(placed: tuple[ReplicaSpec, ...]) -> dict[str, tuple[int, ...]]:
    return {replica.name: replica.gpu_indexes for replica in placed}


class TestGpus:
    def test_all_is_one_replica_per_gpu_in_index_order(self) -> None:
        placed = put(spec(), gpus=FOUR[::-1])
        assert indexes(placed) == {"qwen/0": (0,), "qwen/1": (1,), "qwen/2": (2,), "qwen/3": (3,)}
        assert placed[2].gpu_uuids == ("GPU-2abc",)
        assert all(replica.cpu_cores == () for replica in placed)

    def test_indexes_uuids_and_prefixes(self) -> None:
        assert indexes(put(spec(gpus=[3, "GPU-1abc", "gpu-0"]))) == {
            "qwen/0": (3,),
            "qwen/1": (1,),
            "qwen/2": (0,),
        }

    def test_a_group_is_one_replica(self) -> None:
        assert indexes(put(spec(gpus=[[0, 1], [3, "GPU-2"]]))) == {"qwen/0": (0, 1), "qwen/1": (3, 2)}

    def test_a_full_uuid_wins_over_one_that_begins_with_it(self) -> None:
        gpus = (gpu(0, "GPU-ab"), gpu(1, "GPU-abc"))
        assert indexes(put(spec(gpus=["GPU-ab"]), gpus=gpus)) == {"qwen/0": (0,)}

    @pytest.mark.parametrize("wanted", [4, "GPU-9", "", "0"])
    def test_a_gpu_that_does_not_exist_lists_those_that_do(self, wanted: int | str) -> None:
        with pytest.raises(
            PlacementError, match=f"there is no GPU {wanted!r}; there are 0 \\(GPU-0abc\\), 1"
        ):
            put(spec(gpus=[wanted]))

    def test_a_prefix_of_several_names_them(self) -> None:
        with pytest.raises(PlacementError, match=r"several GPUs: 0 \(GPU-0abc\), 1"):
            put(spec(gpus=["GPU"]))

    @pytest.mark.parametrize("gpus", [[0, 0], [0, "GPU-0"], [[0, 1], ["GPU-1abc"]]])
    def test_a_gpu_given_twice(self, gpus: list[GpuChoice]) -> None:
        with pytest.raises(PlacementError, match="is given twice"):
            put(spec(gpus=gpus))

    def test_none_there_names_the_ways_out(self) -> None:
        with pytest.raises(PlacementError, match="CPU build, or try it simulated: `cockpit up --sim"):
            put(spec(), gpus=())

    def test_a_number_of_replicas_that_contradicts_the_gpus(self) -> None:
        with pytest.raises(PlacementError, match="replicas = 3, and `gpus` makes 2"):
            put(spec(gpus=[0, 1], replicas=3))
        assert len(put(spec(gpus=[0, 1], replicas=2))) == 2


class TestSharing:
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ({"gpu-memory-utilization": 0.5}, {"gpu_memory_utilization": 0.5}),
            ({"gpu-memory-utilization": "0.4"}, {"device-memory-utilization": 0.6}),
            ({"kv-cache-memory-bytes": 1}, {"gpu-memory-utilization": 1.0}),
            ({"kv-cache-memory-bytes": 1, "gpu-memory-utilization": 0.9}, {"gpu-memory-utilization": 0.9}),
        ],
    )
    def test_allowed_when_each_says_its_share(
        self, first: dict[str, ArgValue], second: dict[str, ArgValue]
    ) -> None:
        assert len(put(spec("a", gpus=[0], args=first), spec("b", gpus=[0], args=second))) == 2

    def test_three_shares_that_add_up_to_one(self) -> None:
        shares = (0.3, 0.3, 0.4)
        assert (
            len(
                put(
                    *(
                        spec(f"d{s}{i}", gpus=[0], args={"gpu-memory-utilization": s})
                        for i, s in enumerate(shares)
                    )
                )
            )
            == 3
        )

    @pytest.mark.parametrize(
        ("first", "second", "words"),
        [
            ({}, {}, "a/0 does not say"),
            ({"gpu-memory-utilization": 0.5}, {}, "b/0 does not say"),
            ({"gpu-memory-utilization": 0.5}, {"gpu-memory-utilization": "half"}, "b/0 does not say"),
            (
                {"gpu-memory-utilization": 0.6},
                {"gpu-memory-utilization": 0.5},
                "take 1.10 of the memory of GPU 0",
            ),
        ],
    )
    def test_refused_otherwise(
        self, first: dict[str, ArgValue], second: dict[str, ArgValue], words: str
    ) -> None:
        with pytest.raises(PlacementError, match=f"a/0 and b/0 .*{words}|{words}"):
            put(spec("a", gpus=[0], args=first), spec("b", gpus=["GPU-0"], args=second))

    def test_simulated_engines_share_nothing(self) -> None:
        with pytest.raises(PlacementError, match="a simulated engine shares none"):
            put(spec("a", gpus=[0], backend="simulated"), spec("b", gpus=[0], backend="simulated"))

    @pytest.mark.parametrize("value", [True, [0.5], {"a": 1}, "x"])
    def test_a_share_that_is_no_number_is_unsaid(self, value: ArgValue) -> None:
        assert memory_share({"gpu-memory-utilization": value}) is None


class TestCpu:
    def test_replicas_get_disjoint_cores(self) -> None:
        placed = put(spec(replicas=2), gpus=(), cores=(0, 1), cpu=True)
        assert [(r.name, r.gpu_uuids, r.cpu_cores) for r in placed] == [
            ("qwen/0", (), (0,)),
            ("qwen/1", (), (1,)),
        ]

    def test_one_replica_is_the_default(self) -> None:
        assert len(put(spec(), gpus=(), cpu=True)) == 1

    def test_deployments_share_the_cores_too(self) -> None:
        placed = put(spec("a"), spec("b", replicas=2), cores=(4, 5, 6, 7), cpu=True)
        assert [r.cpu_cores for r in placed] == [(4,), (5,), (6, 7)]

    def test_with_fewer_cores_than_replicas_nobody_is_bound(self) -> None:
        assert [r.cpu_cores for r in put(spec(replicas=3), cores=(0, 1), cpu=True)] == [(), (), ()]

    def test_gpus_named_for_a_cpu_build_are_refused(self) -> None:
        with pytest.raises(PlacementError, match="the CPU build"):
            put(spec(gpus=[0]), cpu=True)


class TestPorts:
    def test_replicas_beyond_what_the_config_could_see(self) -> None:
        with pytest.raises(PlacementError, match="port 9002 of b/0 is that of a/2 too"):
            put(
                spec("a", port=9000, args={"gpu-memory-utilization": 0.1}),
                spec("b", port=9002, gpus=[0], args={"gpu-memory-utilization": 0.1}),
            )

    def test_the_gateways(self) -> None:
        with pytest.raises(PlacementError, match="port 8001 of qwen/1 is that of the gateway too"):
            put(spec(port=8000), gateway_port=8001)

    def test_past_the_last(self) -> None:
        with pytest.raises(PlacementError, match="port 65536 of qwen/1 is beyond 65535"):
            put(spec(port=65535))


@st.composite
def machines(draw: st.DrawFn) -> tuple[list[DeploymentSpec], tuple[GpuReading, ...], tuple[int, ...]]:
    """Deployments that may or may not fit, on GPUs and cores that may or may not be there."""
    count = draw(st.integers(0, 6))
    choice = st.integers(0, count) | st.integers(0, count).map(lambda index: f"GPU-{index}abc")
    entry = choice | st.lists(choice, min_size=1, max_size=3)
    wanted = st.just("all") | st.lists(entry, min_size=1, max_size=4)
    deployments = [
        spec(
            f"d{index}",
            gpus=draw(wanted),
            replicas=draw(st.none() | st.integers(1, 5)),
            backend=draw(st.sampled_from(["vllm", "simulated"])),
            args=draw(st.sampled_from([{}, {"gpu-memory-utilization": 0.5}])),
        )
        for index in range(draw(st.integers(1, 4)))
    ]
    cores = draw(st.lists(st.integers(0, 31), unique=True, max_size=12))
    return deployments, tuple(gpu(index) for index in range(count)), tuple(cores)


@given(machines(), st.frozensets(st.sampled_from(["d0", "d1", "d2", "d3"])))
def test_what_is_placed_is_sound(
    machine: tuple[list[DeploymentSpec], tuple[GpuReading, ...], tuple[int, ...]], cpu: frozenset[str]
) -> None:
    deployments, gpus, cores = machine
    try:
        placed = place(deployments, gpus, cores, lambda spec: spec.name in cpu)
    except PlacementError:
        return
    by_gpu: dict[str, list[ReplicaSpec]] = {}
    for replica in placed:
        for uuid in replica.gpu_uuids:
            by_gpu.setdefault(uuid, []).append(replica)
    for sharers in by_gpu.values():
        unshared = [r for r in sharers if memory_share(r.deployment.args) is None]
        assert len(sharers) == 1 or not unshared
        assert len({r.deployment.name for r in sharers}) == len(sharers)
    for deployment in deployments:
        mine = [r for r in placed if r.deployment.name == deployment.name]
        assert [r.name for r in mine] == [f"{deployment.name}/{index}" for index in range(len(mine))]
        assert mine
        assert all(bool(r.gpu_uuids) != (deployment.name in cpu) for r in mine)
    bound = [core for replica in placed for core in replica.cpu_cores]
    assert len(bound) == len(set(bound))


@given(st.lists(st.integers(0, 63), max_size=20), st.integers(0, 8))
def test_core_shares_are_fair_and_use_every_core(cores: list[int], count: int) -> None:
    shares = core_shares(cores, count)
    assert len(shares) == count
    if count and len(set(cores)) >= count:
        assert sorted(core for share in shares for core in share) == sorted(set(cores))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
    else:
        assert not any(shares)
