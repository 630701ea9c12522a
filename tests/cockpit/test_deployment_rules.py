from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cockpit.settings import ConfigError, check_deployments
from engine.model import DeploymentSpec, SimulatedEngine


def spec(**changes: object) -> DeploymentSpec:
    given: dict[str, object] = {"name": "qwen", "model": "Qwen/Qwen3-8B"} | changes
    return DeploymentSpec(**given)  # type: ignore[arg-type]


def accept(*deployments: DeploymentSpec, folder: Path = Path("/nonexistent")) -> tuple[DeploymentSpec, ...]:
    return check_deployments(deployments, folder=folder, gateway_port=8000, environment={"PATH": "/usr/bin"})


def refuse(*deployments: DeploymentSpec, folder: Path = Path("/nonexistent")) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        accept(*deployments, folder=folder)
    return caught.value


class TestName:
    @pytest.mark.parametrize("name", ["a", "0", "qwen3-8b", "a.b_c-d", "x" * 63, "gpu", "gpu0a"])
    def test_allowed(self, name: str) -> None:
        accept(spec(name=name))

    @pytest.mark.parametrize("name", ["", "A", "a/b", "-a", ".a", "a b", "é", "x" * 64, "a\n"])
    def test_not_allowed(self, name: str) -> None:
        assert "is no deployment name" in refuse(spec(name=name)).message

    def test_what_commands_call_a_gpu_is_taken(self) -> None:
        assert "call a GPU" in refuse(spec(name="gpu0")).message

    def test_a_name_given_twice_names_the_first(self) -> None:
        assert "already the name of engine[0]" in refuse(spec(), spec(name="b"), spec()).message


class TestModel:
    def test_an_id_is_not_looked_up(self) -> None:
        assert accept(spec())[0].model == "Qwen/Qwen3-8B"

    @pytest.mark.parametrize("written", ["./tiny", "../{name}/tiny", "tiny", "{folder}/tiny"])
    def test_a_folder_is_relative_to_the_config(self, tmp_path: Path, written: str) -> None:
        (tmp_path / "tiny").mkdir()
        (tmp_path / "tiny" / "config.json").write_text("{}")
        model = written.format(name=tmp_path.name, folder=tmp_path)
        assert accept(spec(model=model), folder=tmp_path)[0].model == str(tmp_path / "tiny")

    @pytest.mark.parametrize("written", ["./tiny", "tiny"])
    def test_a_folder_without_config_json_is_named(self, tmp_path: Path, written: str) -> None:
        (tmp_path / "tiny").mkdir()
        assert f"{tmp_path}/tiny has no config.json" in refuse(spec(model=written), folder=tmp_path).message

    @pytest.mark.parametrize("written", ["./none", "/none", "~nobody-here/x", "./" + "x" * 300, "./\0"])
    def test_a_path_that_is_no_folder_is_named(self, tmp_path: Path, written: str) -> None:
        assert "there is no folder" in refuse(spec(model=written), folder=tmp_path).message

    def test_an_empty_model_is_refused(self) -> None:
        assert "`model`: is empty" in refuse(spec(model=" ")).message

    def test_the_model_of_a_simulated_engine_is_only_a_name(self) -> None:
        accept(spec(model="./none", backend="simulated"))


class TestPython:
    def test_a_path_is_relative_to_the_config_and_links_are_kept(self, tmp_path: Path) -> None:
        link = tmp_path / "bin" / "python"
        link.parent.mkdir()
        link.symlink_to(sys.executable)
        assert accept(spec(python="bin/python"), folder=tmp_path)[0].python == str(link)

    def test_a_bare_name_is_looked_for_on_path(self, tmp_path: Path) -> None:
        tool = tmp_path / "python-with-vllm"
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
        (found,) = check_deployments(
            [spec(python=tool.name)], folder=tmp_path, gateway_port=None, environment={"PATH": str(tmp_path)}
        )
        assert found.python == tool.name

    def test_a_missing_interpreter_is_named(self) -> None:
        error = refuse(spec(python="/none/python"))
        assert error.message == "engine qwen: `python`: /none/python does not exist or cannot be executed"
        assert "cockpit doctor" in error.hint

    def test_a_file_that_cannot_be_executed_is_no_interpreter(self, tmp_path: Path) -> None:
        (tmp_path / "python").write_text("")
        assert "cannot be executed" in refuse(spec(python=str(tmp_path / "python"))).message


class TestGpus:
    @pytest.mark.parametrize("gpus", ["all", [0, 1], ["GPU-5b4e"], [[0, 1], [2, 3]], [0, "GPU-1", [2]]])
    def test_allowed(self, gpus: object) -> None:
        accept(spec(gpus=gpus))

    @pytest.mark.parametrize(
        ("gpus", "words"),
        [
            ("GPU-5b4e", 'write "all" or \\["GPU-5b4e"\\]'),
            ([], "names no GPU"),
            ([[0], []], "names no GPU"),
            ([-1], "-1 is no GPU index"),
            ([0, 0], "GPU 0 is given twice"),
            ([[0, 1], [1, 2]], "GPU 1 is given twice"),
        ],
    )
    def test_not_allowed(self, gpus: object, words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            accept(spec(gpus=gpus))


class TestNumbers:
    @pytest.mark.parametrize(
        "changes",
        [
            {"replicas": 0},
            {"replicas": -1},
            {"start_timeout_s": 0.0},
            {"start_timeout_s": -1.0},
            {"start_timeout_s": float("nan")},
            {"drain_timeout_s": -0.1},
            {"drain_timeout_s": float("inf")},
        ],
    )
    def test_out_of_range(self, changes: dict[str, object]) -> None:
        assert f"`{next(iter(changes))}`: must be" in refuse(spec(**changes)).message

    def test_draining_for_no_time_is_allowed(self) -> None:
        accept(spec(drain_timeout_s=0.0))

    @pytest.mark.parametrize(
        "timing",
        [
            SimulatedEngine(prefill_tokens_per_s=0),
            SimulatedEngine(kv_blocks=-1),
            SimulatedEngine(load_rps=-1),
            SimulatedEngine(startup_s=float("nan")),
        ],
    )
    def test_timing_of_a_simulated_engine(self, timing: SimulatedEngine) -> None:
        assert "`simulated." in refuse(spec(backend="simulated", simulated=timing)).message

    def test_zero_where_zero_means_something(self) -> None:
        accept(spec(backend="simulated", simulated=SimulatedEngine(load_rps=0, startup_s=0)))


class TestBackend:
    def test_a_simulated_table_for_a_real_engine(self) -> None:
        error = refuse(spec(simulated=SimulatedEngine()))
        assert "`simulated`: is for simulated engines" in error.message

    def test_arguments_for_a_simulated_engine(self) -> None:
        assert "are vLLM's" in refuse(spec(backend="simulated", args={"max-model-len": 1})).message

    def test_an_argument_written_with_dashes_and_underscores(self) -> None:
        error = refuse(spec(args={"max-model-len": 1, "max_model_len": 2}))
        assert error.message == "engine qwen: `args.max_model_len`: is given twice, also as `max-model-len`"

    def test_an_argument_that_the_cockpit_sets_itself(self) -> None:
        message = refuse(spec(args={"api_key": "x"})).message
        assert message.startswith("engine qwen: `args.api_key`: is set by the cockpit")


class TestPorts:
    def test_apart(self) -> None:
        accept(spec(port=9000, replicas=2), spec(name="b", port=9002))

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ({"port": 9000}, {"port": 9000}),
            ({"port": 9000, "replicas": 2}, {"port": 9001}),
            ({"port": 9000, "gpus": [0, 1, 2]}, {"port": 9002}),
            ({"port": 9001}, {"port": 9000, "gpus": [[0], [1]]}),
        ],
    )
    def test_two_engines_on_one_port(self, first: dict[str, object], second: dict[str, object]) -> None:
        error = refuse(spec(**first), spec(name="b", **second))
        assert "is also that of qwen/" in error.message

    def test_the_gateways_port_is_taken(self) -> None:
        assert (
            "port 8000 of qwen/1 is also that of the gateway" in refuse(spec(port=7999, replicas=2)).message
        )

    @pytest.mark.parametrize("changes", [{"port": 0}, {"port": 65536}, {"port": 65535, "replicas": 2}])
    def test_out_of_range(self, changes: dict[str, object]) -> None:
        assert "is outside 1 to 65535" in refuse(spec(**changes)).message
