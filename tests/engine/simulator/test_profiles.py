from __future__ import annotations

import pytest

from engine.errors import SpecError
from engine.simulator.profiles import PROFILES, Profile, profile
from engine.simulator.timing import EngineModel

everywhere = pytest.mark.parametrize("machine", PROFILES.values(), ids=list(PROFILES))


@everywhere
def test_every_gpu_carries_one_replica(machine: Profile) -> None:
    used = []
    for spec in machine.deployments:
        assert isinstance(spec.gpus, list)
        for choice in spec.gpus:
            used.extend(choice if isinstance(choice, list) else [choice])
    assert sorted(map(int, used)) == [gpu.index for gpu in machine.gpus]


@everywhere
def test_engines_fit_their_gpus_and_hold_their_longest_sequence(machine: Profile) -> None:
    for spec in machine.deployments:
        assert spec.backend == "simulated"
        assert spec.simulated is not None
        assert isinstance(spec.gpus, list)
        width = len(spec.gpus[0]) if isinstance(spec.gpus[0], list) else 1
        held = spec.simulated.weights_bytes + spec.simulated.kv_bytes
        assert held <= 0.92 * width * machine.gpus[0].memory_total_bytes
        EngineModel(spec.simulated)


def test_an_unknown_profile_names_the_nearest_and_all() -> None:
    with pytest.raises(SpecError, match=r"'h100x4'; did you mean h100x8\? known: h100x8, l40sx2"):
        profile("h100x4")
    with pytest.raises(SpecError, match=r"'zzz'; known: h100x8, l40sx2"):
        profile("zzz")
    assert profile("h100x8").name == "h100x8"
