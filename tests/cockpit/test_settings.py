from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cockpit import settings
from cockpit.settings import Config, ConfigError

ENGINE = '[[engine]]\nname = "qwen"\nmodel = "Qwen/Qwen3-8B"\n'


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "cockpit.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def load(tmp_path: Path, text: str | bytes, environment: dict[str, str] | None = None) -> Config:
    return settings.load(write(tmp_path, text), environment or {})


def refused(tmp_path: Path, text: str | bytes, environment: dict[str, str] | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, environment)
    assert "\n" not in str(caught.value)
    return caught.value


class TestSources:
    def test_an_empty_file_gives_the_defaults(self, tmp_path: Path) -> None:
        config = load(tmp_path, "")
        assert config.node.name == socket.gethostname()
        assert (config.gateway.host, config.gateway.port) == ("127.0.0.1", 8000)
        assert config.gateway.max_body_mib == 32
        assert config.storage.keep_samples_hours == 24
        assert config.engine == ()
        assert not config.listen_is_configured

    def test_no_file_is_no_error(self) -> None:
        assert settings.load(None, {}).path is None

    def test_flag_wins_over_environment_wins_over_file(self, tmp_path: Path) -> None:
        path = write(tmp_path, '[gateway]\nlisten = "127.0.0.1:1"\n[node]\nname = "file"\n')
        environment = {"COCKPIT_GATEWAY_LISTEN": "127.0.0.1:2", "COCKPIT_NODE_NAME": "env"}
        assert settings.load(path, {}).gateway.port == 1
        assert settings.load(path, environment).gateway.port == 2
        config = settings.load(path, environment, {"gateway.listen": "127.0.0.1:3"})
        assert (config.gateway.port, config.node.name) == (3, "env")

    @pytest.mark.parametrize(
        ("text", "environment", "flags"),
        [
            ('[gateway]\nlisten = "127.0.0.1:8000"\n', {}, {}),
            ("", {"COCKPIT_GATEWAY_LISTEN": "127.0.0.1:8000"}, {}),
            ("", {}, {"gateway.listen": "127.0.0.1:8000"}),
        ],
    )
    def test_an_address_equal_to_the_default_still_counts_as_configured(
        self, tmp_path: Path, text: str, environment: dict[str, str], flags: dict[str, str]
    ) -> None:
        assert settings.load(write(tmp_path, text), environment, flags).listen_is_configured

    def test_a_variable_is_converted_to_the_type_of_its_key(self, tmp_path: Path) -> None:
        environment = {"COCKPIT_GATEWAY_MAX_BODY_MIB": "8", "COCKPIT_STORAGE_KEEP_SAMPLES_HOURS": "1.5"}
        config = load(tmp_path, "", environment)
        assert config.gateway.max_body_mib == 8
        assert config.storage.keep_samples_hours == 1.5

    def test_an_empty_variable_counts_as_unset(self, tmp_path: Path) -> None:
        assert load(tmp_path, "", {"COCKPIT_NODE_SOCKET_GROUP": ""}).node.socket_group is None

    def test_folder_and_interpreter_variables_are_no_keys(self, tmp_path: Path) -> None:
        load(tmp_path, "", {"COCKPIT_HOME": "/x", "COCKPIT_PYTHON": "/y", "COCKPIT_CI_JOB": "other program"})

    @pytest.mark.parametrize(
        ("variable", "hint"),
        [
            ("COCKPIT_GATEWAY_LISTN", "COCKPIT_GATEWAY_LISTEN"),
            ("COCKPIT_GATWAY_LISTEN", "COCKPIT_GATEWAY_LISTEN"),
            ("COCKPIT_NODE_XYZZY", "COCKPIT_NODE_NAME"),
            ("COCKPIT_ENGINE_NAME", "unset"),
        ],
    )
    def test_an_unknown_variable_is_named_with_a_suggestion(
        self, tmp_path: Path, variable: str, hint: str
    ) -> None:
        error = refused(tmp_path, "", {variable: "x"})
        assert variable in error.message
        assert hint in error.hint

    def test_a_bad_variable_is_named_instead_of_the_file(self, tmp_path: Path) -> None:
        error = refused(tmp_path, "", {"COCKPIT_GATEWAY_MAX_BODY_MIB": "lots"})
        assert error.message.startswith("COCKPIT_GATEWAY_MAX_BODY_MIB: 'lots' is not a whole number")
        error = refused(tmp_path, "", {"COCKPIT_GATEWAY_LISTEN": "nowhere"})
        assert error.message.startswith("COCKPIT_GATEWAY_LISTEN: `gateway.listen`: 'nowhere' is no address")


class TestFile:
    def test_a_missing_file_names_the_example(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"none\.toml: no such file; `cockpit config example`"):
            settings.load(tmp_path / "none.toml", {})

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="is a folder"):
            settings.load(tmp_path, {})

    def test_an_unreadable_file_says_why(self, tmp_path: Path) -> None:
        # A file name that is too long fails for root too, whom permissions do not stop.
        with pytest.raises(ConfigError, match="cannot be read: File name too long"):
            settings.load(tmp_path / ("x" * 300), {})

    def test_invalid_utf8_names_the_line(self, tmp_path: Path) -> None:
        error = refused(tmp_path, b'[node]\nname = "\xff"\n')
        assert error.message.endswith("cockpit.toml:2: not UTF-8 text")

    def test_a_byte_order_mark_is_no_error(self, tmp_path: Path) -> None:
        assert load(tmp_path, b'\xef\xbb\xbf[node]\nname = "a"\n').node.name == "a"

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("[node]\nname = \n", "cockpit.toml:2:8: broken TOML: Invalid value"),
            ("[node\n", "cockpit.toml:1:6: broken TOML"),
            ('[node]\nname = "a"\nname = "b"\n', "cockpit.toml:3:11: broken TOML: Cannot overwrite a value"),
            ('[node]\nname = """', "cockpit.toml:2: broken TOML: Unterminated string"),
            ("a = " + "[" * 5000, "broken TOML: nested too deeply"),
        ],
    )
    def test_broken_toml_names_line_and_column(self, tmp_path: Path, text: str, place: str) -> None:
        assert place in refused(tmp_path, text).message

    @pytest.mark.parametrize(
        ("text", "line", "key", "suggestion"),
        [
            ("# c\n[gatway]\n", 2, "gatway", "gateway"),
            ('[node]\nnmae = "x"\n', 2, "node.nmae", "name"),
            ("[gateway]\nmax_body = 1\n", 2, "gateway.max_body", "max_body_mib"),
            ("[storage]\n\nkeep_sample_hours = 1\n", 3, "storage.keep_sample_hours", "keep_samples_hours"),
            (ENGINE + 'gpu = "all"\n', 4, "engine[0].gpu", "gpus"),
            (ENGINE + ENGINE + "start-timeout-s = 3\n", 7, "engine[1].start-timeout-s", "start_timeout_s"),
            (ENGINE + "[engine.simulated]\nkv_block = 3\n", 5, "engine[0].simulated.kv_block", "kv_blocks"),
        ],
    )
    def test_an_unknown_key_is_named_and_the_nearest_suggested(
        self, tmp_path: Path, text: str, line: int, key: str, suggestion: str
    ) -> None:
        error = refused(tmp_path, text)
        assert error.message.endswith(f"cockpit.toml:{line}: unknown key `{key}`")
        assert error.hint == f"did you mean `{suggestion}`?"

    def test_a_key_like_none_gets_the_list(self, tmp_path: Path) -> None:
        assert refused(tmp_path, "[storage]\nq = 1\n").hint == "known are keep_samples_hours"

    def test_a_missing_key_names_the_table(self, tmp_path: Path) -> None:
        error = refused(tmp_path, ENGINE + '[[engine]]\nname = "b"\n')
        assert error.message.endswith("cockpit.toml:4: engine[1] has no `model`")

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("node = 3\n", ":1: `node`: expected a table, got a whole number"),
            ("[node]\nname = 3\n", ":2: `node.name`: expected text, got a whole number"),
            (
                '[gateway]\nmax_body_mib = "8"\n',
                ":2: `gateway.max_body_mib`: expected a whole number, got text",
            ),
            (ENGINE + "gpus = 3\n", ":4: `engine[0].gpus`: expected text or a list, got a whole number"),
            (
                ENGINE + "gpus = [true]\n",
                ":4: `engine[0].gpus[0]`: expected a whole number or text or a list",
            ),
            (ENGINE + "[engine.env]\nA = '1'\nB = 2\n", ":6: `engine[0].env.B`: expected text"),
            (ENGINE + "[engine.args]\na = 1\nb = 1979-05-27\n", ":6: `engine[0].args.b`: expected true or"),
            (ENGINE + "backend = 'sglang'\n", ":4: `engine[0].backend`: no such choice: 'sglang'"),
            ("[engine]\nname = 'x'\n", ":1: `engine`: expected a list, got a table"),
        ],
    )
    def test_a_wrong_type_names_line_key_and_type(self, tmp_path: Path, text: str, words: str) -> None:
        assert f"cockpit.toml{words}" in refused(tmp_path, text).message


class TestValues:
    @pytest.mark.parametrize(
        "listen", ["127.0.0.1:0", "0.0.0.0:65535", "[::1]:80", "localhost:8000", "a.b-c:1"]
    )
    def test_addresses(self, tmp_path: Path, listen: str) -> None:
        config = load(tmp_path, f'[gateway]\nlisten = "{listen}"\n')
        assert f"{config.gateway.host}:{config.gateway.port}" == listen.replace("[", "").replace("]", "")

    @pytest.mark.parametrize(
        "listen",
        [
            "",
            "8000",
            ":8000",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:65536",
            "127.0.0.1:-1",
            "999.0.0.1:1",
            "::1:80",
            "[::1]",
            "http://a:1",
            "a b:1",
            "127.0.0.1:٣",
            "[127.0.0.1]:1",
        ],
    )
    def test_what_is_no_address(self, tmp_path: Path, listen: str) -> None:
        error = refused(tmp_path, f'[gateway]\nlisten = "{listen}"\n')
        assert "cockpit.toml:2: `gateway.listen`" in error.message
        assert "127.0.0.1:8000" in error.hint

    @pytest.mark.parametrize(
        ("section", "line", "key"),
        [
            ("node", 'name = ""', "node.name"),
            ("node", 'name = "a\\nb"', "node.name"),
            ("node", f'name = "{"x" * 64}"', "node.name"),
            ("node", 'socket_group = "no-such-group-here"', "node.socket_group"),
            ("gateway", "max_body_mib = 0", "gateway.max_body_mib"),
            ("storage", "keep_samples_hours = 0", "storage.keep_samples_hours"),
            ("storage", "keep_samples_hours = nan", "storage.keep_samples_hours"),
            ("storage", "keep_samples_hours = inf", "storage.keep_samples_hours"),
        ],
    )
    def test_what_no_section_can_hold(self, tmp_path: Path, section: str, line: str, key: str) -> None:
        assert f"cockpit.toml:2: `{key}`" in refused(tmp_path, f"[{section}]\n{line}\n").message


def test_check_tells_everything_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, '[gateway]\nlisten = "x"\n' + ENGINE + ENGINE + "replicas = 0\n")
    errors = settings.check(path, {})
    assert [error.message.split("`")[1] for error in errors] == [
        "gateway.listen",
        "engine[1].name",
        "engine[1].replicas",
    ]
    assert settings.check(write(tmp_path, ENGINE), {}) == ()


def test_check_of_a_broken_file_is_one_error(tmp_path: Path) -> None:
    (error,) = settings.check(write(tmp_path, "["), {})
    assert "broken TOML" in error.message
