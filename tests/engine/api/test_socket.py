"""Who may reach the socket, and who it says is there."""

from __future__ import annotations

import grp
import os
import stat
import tempfile
from pathlib import Path

import pytest
import uvloop

from engine.api.peers import UNKNOWN, peer, user_name
from engine.api.server import ApiServer
from engine.errors import LaunchError, SpecError
from tests.engine.api.support import FakeControl, FakeMemory, serve

ACTION = {"action": "stop", "target": "a/0"}


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_the_socket_is_the_owners_alone() -> None:
    umask = os.umask(0o022)
    try:
        async with serve() as node:
            assert stat.S_ISSOCK(node.path.stat().st_mode)
            assert _mode(node.path) == 0o600
            assert _mode(node.path.parent) == 0o700
            assert os.umask(0o022) == 0o022  # the process's own is as before
        assert not node.path.exists()
    finally:
        os.umask(umask)


async def test_a_group_can_use_the_socket_and_not_list_its_folder() -> None:
    gid = os.getgroups()[0] if os.getgroups() else os.getgid()
    async with serve(grp.getgrgid(gid).gr_name) as node:
        assert _mode(node.path) == 0o660
        assert _mode(node.path.parent) == 0o710
        assert node.path.stat().st_gid == gid
        assert node.path.parent.stat().st_gid == gid


async def test_an_unknown_group_is_refused_by_name() -> None:
    with pytest.raises(SpecError, match="no-such-group-here"):
        async with serve("no-such-group-here"):
            pass


async def test_a_group_that_one_is_not_in_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(SpecError, match="not a member of"):
        async with serve(grp.getgrgid(os.getgid()).gr_name):
            pass


async def test_a_folder_that_an_earlier_start_left_open_is_closed() -> None:
    with tempfile.TemporaryDirectory(prefix="ck-") as folder:
        run = Path(folder) / "run"
        run.mkdir(mode=0o755)
        (run / "api.sock").write_text("left by a dead node")
        server = ApiServer(FakeControl(), FakeMemory(), lambda app: None)
        await server.listen(run / "api.sock", None)
        assert _mode(run) == 0o700
        await server.close()


@pytest.mark.parametrize("kind", ["link", "file"])
async def test_a_folder_that_is_not_ones_own_is_refused(kind: str) -> None:
    with tempfile.TemporaryDirectory(prefix="ck-") as folder:
        run = Path(folder) / "run"
        if kind == "link":
            (Path(folder) / "elsewhere").mkdir()
            run.symlink_to(Path(folder) / "elsewhere")
        else:
            run.write_text("in the way")
        server = ApiServer(FakeControl(), FakeMemory(), lambda app: None)
        with pytest.raises(LaunchError, match=str(run)):
            await server.listen(run / "api.sock", None)
        await server.close()


async def test_a_folder_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    with pytest.raises(LaunchError, match="not a folder of yours"):
        async with serve():
            pass


async def _actor_of_an_action() -> None:
    async with serve() as node:
        await node.ask("POST", "/v1/engines/action", ACTION)
        assert [(by.name, by.uid) for by in node.control.by] == [(user_name(os.getuid()), os.getuid())]


async def test_an_action_is_kept_with_the_name_that_the_kernel_gives() -> None:
    await _actor_of_an_action()


def test_the_nodes_own_loop_gives_the_name_too() -> None:
    uvloop.run(_actor_of_an_action())


def test_a_connection_without_a_socket_is_unknown() -> None:
    assert peer(None) == UNKNOWN


def test_a_uid_without_a_login_is_a_number() -> None:
    assert user_name(3_999_999_999) == "uid 3999999999"
