from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LaunchError
from engine.model import Endpoint
from engine.supervisor import address
from engine.supervisor.address import LOOPBACK, NAME_LIMIT, SOCKET_PATH_LIMIT_BYTES, PortTakenError
from tests.engine.supervisor.fakes import replica


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody listens on for the whole test."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        yield listener.getsockname()[1]


def listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def test_the_folder_is_private_even_if_it_was_not(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o755)
    endpoint = address.claim(replica(), run)
    assert endpoint == Endpoint(uds=str(run / "qwen-0.sock"))
    assert stat.S_IMODE(run.stat().st_mode) == 0o700


def test_a_stale_socket_is_removed(tmp_path: Path) -> None:
    stale = tmp_path / "qwen-0.sock"
    listen(stale)
    assert stale.is_socket()
    address.claim(replica(), tmp_path)
    assert not stale.exists()


def folder_for(tmp_path: Path, path_bytes: int) -> Path:
    """A folder in which `qwen-0.sock` has a path of so many bytes."""
    rest = path_bytes - len(os.fsencode(tmp_path / "x" / "qwen-0.sock")) + 1
    return tmp_path / ("é" * (rest // 2) + "x" * (rest % 2))


def test_a_path_of_107_bytes_can_be_listened_on_and_one_more_is_refused(tmp_path: Path) -> None:
    fits = folder_for(tmp_path, SOCKET_PATH_LIMIT_BYTES)
    endpoint = address.claim(replica(), fits)
    assert endpoint.uds is not None
    assert len(os.fsencode(endpoint.uds)) == 107
    listen(Path(endpoint.uds))
    too_long = folder_for(tmp_path, SOCKET_PATH_LIMIT_BYTES + 1)
    with pytest.raises(LaunchError, match="longer than the 107 bytes") as caught:
        address.claim(replica(), too_long)
    assert "COCKPIT_HOME" in caught.value.hint
    assert not too_long.exists(), "nothing is made before it is known to fit"


def test_a_folder_that_cannot_be_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LaunchError, match="file/run cannot be prepared"):
        address.claim(replica(), tmp_path / "file" / "run")
    (tmp_path / "qwen-0.sock").mkdir()
    with pytest.raises(LaunchError, match="cannot be prepared"):
        address.claim(replica(), tmp_path)


def test_release_removes_the_socket_and_never_fails(tmp_path: Path) -> None:
    path = tmp_path / "qwen-0.sock"
    listen(path)
    address.release(Endpoint(uds=str(path)))
    assert not path.exists()
    address.release(Endpoint(uds=str(path)))
    address.release(Endpoint(uds=str(tmp_path)))
    address.release(Endpoint(host=LOOPBACK, port=1))
    address.release(None)


def test_replicas_take_ports_one_after_the_other(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    endpoint = address.claim(replica("a/2", port=port - 2), tmp_path / "run")
    assert endpoint == Endpoint(host=LOOPBACK, port=port)
    assert endpoint.open_to_local_users is not None
    assert not (tmp_path / "run").exists()


def test_a_taken_port_names_itself_and_how_to_find_its_holder(tmp_path: Path, taken_port: int) -> None:
    with pytest.raises(PortTakenError, match=f"engine a/0: port {taken_port} is in use") as caught:
        address.claim(replica("a/0", port=taken_port), tmp_path)
    assert f":{taken_port}" in caught.value.hint


def test_a_port_just_left_by_the_engine_before_is_free(tmp_path: Path) -> None:
    """Its connections are in TIME_WAIT for a minute."""
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection((LOOPBACK, port))
        accepted, _ = server.accept()
        accepted.close()  # the server closes first, so the wait is on its side
        client.close()
    assert address.claim(replica("a/0", port=port), tmp_path).port == port


def test_a_port_that_cannot_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="there is no port 65536"):
        address.claim(replica("a/1", port=65_535), tmp_path)


@given(st.text(max_size=80))
def test_a_socket_name_is_short_and_plain(engine: str) -> None:
    name = address.socket_name(engine)
    assert len(os.fsencode(name)) <= NAME_LIMIT
    assert "/" not in name
    assert name == address.socket_name(engine)


def test_long_names_stay_apart() -> None:
    names = {address.socket_name(f"a-deployment-with-a-long-name/{index}") for index in range(8)}
    assert len(names) == 8
