"""The log screen: following, scrolling, searching, jumping between launches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from cockpit.screens.engines import EnginesScreen
from cockpit.screens.logs import LogsScreen
from cockpit.widgets.log_view import LogView
from engine.api.schema import Launch
from engine.model import ExitCause
from tests.support.log_file import LogFile
from tests.support.room_node import RoomNode, engine_view, frame_of
from tests.support.wait_until import wait_until
from tests.ui.room_app import RoomApp

FRAME = frame_of(engine_view("qwen/0", launch_id=2), engine_view("moe/0", launch_id=3))


def lines(count: int, first: int = 0) -> bytes:
    return b"".join(b"INFO line %07d %s\n" % (number, b"x" * 60) for number in range(first, first + count))


def launch(number: int, engine: str = "qwen/0", **fields: Any) -> Launch:
    return Launch(
        id=number,
        engine=engine,
        started_at_s=1_000.0 + number,
        pid=1,
        session_id=1,
        log_path="/log",
        log_bytes=1,
        **fields,
    )


def node_with(*logs: LogFile) -> RoomNode:
    """Launches of qwen/0, oldest first; all but the newest have crashed."""
    node = RoomNode()
    for number, log in enumerate(logs, start=1):
        ended: dict[str, Any] = {}
        if number < len(logs):
            log.ended = True
            ended = {"ended_at_s": 2_000.0, "cause": ExitCause(kind="crash", summary="it fell over")}
        node.known_launches.insert(0, launch(number, **ended))
        node.logs[number] = log
    return node


@asynccontextmanager
async def logs(
    node: RoomNode, size: tuple[int, int] = (80, 24), engine: str | None = None
) -> AsyncIterator[tuple[LogsScreen, Pilot[None]]]:
    app = RoomApp(node, FRAME)
    async with app.run_test(size=size) as pilot:
        screen = LogsScreen(engine)
        await app.push_screen(screen)
        await wait_until(lambda: screen.query_one(LogView).window.launch_id != 0 or not node.known_launches)
        yield screen, pilot


def drawn(screen: LogsScreen) -> list[str]:
    """The rows as they are on the screen, without the scrollbar."""
    view = screen.query_one(LogView)
    return [view.render_line(y).text[:-1].rstrip() for y in range(view.size.height)]


def status(screen: LogsScreen) -> str:
    return str(screen.query_one("#logs-status", Static).content)


def header(screen: LogsScreen) -> str:
    return str(screen.query_one("#logs-launch", Static).content)


async def test_newest_launch_opens_at_its_end_and_follows() -> None:
    log = LogFile(lines(500))
    async with logs(node_with(log)) as (screen, _):
        await wait_until(lambda: "0000499" in drawn(screen)[-1])
        assert "following" in status(screen)

        log.write(lines(3, first=500))
        await wait_until(lambda: "0000502" in drawn(screen)[-1])


async def test_scrolling_up_stops_following_and_end_starts_it_again() -> None:
    log = LogFile(lines(500))
    async with logs(node_with(log)) as (screen, pilot):
        await wait_until(lambda: "0000499" in drawn(screen)[-1])
        await pilot.press("up")
        assert "0000498" in drawn(screen)[-1]
        assert "paused" in status(screen)

        log.write(lines(3, first=500))
        await pilot.press("end")
        await wait_until(lambda: "0000502" in drawn(screen)[-1])
        assert "following" in status(screen)


async def test_whole_file_can_be_scrolled_though_only_a_window_is_held() -> None:
    log = LogFile(lines(60_000))
    async with logs(node_with(log)) as (screen, pilot):
        view = screen.query_one(LogView)
        await wait_until(lambda: "0059999" in drawn(screen)[-1])
        await pilot.press("home")
        await wait_until(lambda: "0000000" in drawn(screen)[0])

        seen = 0
        for _ in range(200):
            view.action_page(1)
            await wait_until(lambda: view.window.last - view._top.line >= 60)
            top = int(drawn(screen)[0].split()[2])
            assert top > seen
            seen = top
        assert view.window.end - view.window.start <= 2**20
        assert sum(limit for _, limit in log.reads) < 3 * 2**20


async def test_scrolling_back_over_a_boundary_loses_no_line() -> None:
    log = LogFile(lines(5_000))
    async with logs(node_with(log)) as (screen, _):
        view = screen.query_one(LogView)
        await wait_until(lambda: "0004999" in drawn(screen)[-1])
        for _ in range(100):
            await wait_until(lambda: view._top.line - view.window.first >= 40)
            view.action_page(-1)
        numbers = [int(row.split()[2]) for row in drawn(screen)]

        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert numbers[0] == 5_000 - view.size.height - 100 * (view.size.height - 1)


async def test_search_marks_and_steps_through_hits_of_the_whole_file() -> None:
    content = lines(10_000) + b"ERROR needle one\n" + lines(10_000) + b"ERROR NEEDLE two\n" + lines(10_000)
    async with logs(node_with(LogFile(content))) as (screen, pilot):
        view = screen.query_one(LogView)
        await pilot.press("slash")
        screen.query_one("#logs-search", Input).value = "needle"
        await pilot.press("enter")
        await wait_until(
            lambda: "“needle” 2 of 2 lines" in status(screen) and "searched" not in status(screen)
        )
        await wait_until(lambda: any("NEEDLE two" in row for row in drawn(screen)))
        assert view.has_focus

        await pilot.press("n")
        await wait_until(lambda: any("needle one" in row for row in drawn(screen)))
        assert "1 of 2" in status(screen)
        await pilot.press("n")
        await wait_until(lambda: any("NEEDLE two" in row for row in drawn(screen)))
        await pilot.press("N")
        await wait_until(lambda: any("needle one" in row for row in drawn(screen)))
        await pilot.press("N")
        await wait_until(lambda: any("NEEDLE two" in row for row in drawn(screen)))
        row = next(y for y, text in enumerate(drawn(screen)) if "NEEDLE" in text)
        marked = [part.text for part in view.render_line(row) if part.style and part.style.reverse]
        assert marked == ["NEEDLE"]

        await pilot.press("escape")
        assert "needle" not in status(screen)


async def test_search_without_a_hit_says_so() -> None:
    async with logs(node_with(LogFile(lines(50)))) as (screen, pilot):
        await pilot.press("slash")
        screen.query_one("#logs-search", Input).value = "nowhere"
        await pilot.press("enter")
        await wait_until(lambda: "“nowhere” 0 lines" in status(screen))


async def test_launches_are_walked_newest_first_with_their_end() -> None:
    node = node_with(LogFile(b"first launch\n"), LogFile(b"second launch\n"))
    async with logs(node) as (screen, pilot):
        await wait_until(lambda: "second launch" in drawn(screen))
        assert "launch 2 of 2" in header(screen)

        await pilot.press("left_square_bracket")
        await wait_until(lambda: "first launch" in drawn(screen))
        assert "launch 1 of 2" in header(screen)
        assert "crash: it fell over" in str(screen.query_one("#logs-cause", Static).content)
        assert "ended" in status(screen)

        await pilot.press("right_square_bracket")
        await wait_until(lambda: "second launch" in drawn(screen))


async def test_new_launch_of_a_followed_engine_is_opened() -> None:
    node = node_with(LogFile(b"old\n"))
    async with logs(node) as (screen, _):
        await wait_until(lambda: "old" in drawn(screen))
        node.known_launches.insert(0, launch(2))
        node.logs[2] = LogFile(b"new\n")
        screen.show_frame(FRAME)
        await wait_until(lambda: "new" in drawn(screen))


async def test_launch_that_becomes_ready_is_told_though_the_file_is_not_followed() -> None:
    node = node_with(LogFile(b"loading\n"))
    async with logs(node, engine="qwen/0") as (screen, pilot):
        await wait_until(lambda: "not ready yet" in header(screen))
        await pilot.press("f")
        node.known_launches[0] = launch(1, ready_at_s=1_002.0)
        screen.show_frame(frame_of(engine_view("qwen/0", launch_id=1)))
        await wait_until(lambda: header(screen).endswith("  running"))


async def test_first_launch_of_an_engine_opens_by_itself() -> None:
    node = RoomNode()
    async with logs(node, engine="qwen/0") as (screen, _):
        await wait_until(lambda: "never launched" in header(screen))
        node.known_launches.insert(0, launch(2))
        node.logs[2] = LogFile(b"first\n")
        screen.show_frame(FRAME)
        await wait_until(lambda: "first" in drawn(screen))


async def test_engine_cannot_drive_the_terminal() -> None:
    log = LogFile(b"\x1b]0;owned\x07\x1b[2Jsafe \x1b[31mred\x1b[0m\n")
    async with logs(node_with(log)) as (screen, _):
        await wait_until(lambda: "safe red" in drawn(screen))


async def test_long_lines_are_cut_or_wrapped_or_scrolled_sideways() -> None:
    log = LogFile(b"a" * 100 + b"b" * 10 + b"\nshort\n")
    async with logs(node_with(log)) as (screen, pilot):
        await wait_until(lambda: "short" in drawn(screen))
        assert "b" not in drawn(screen)[0]
        assert drawn(screen)[1] == "short"

        await pilot.press("w")
        assert drawn(screen)[1].endswith("b")
        assert drawn(screen)[2] == "short"

        await pilot.press("w", "right", "right", "right")
        assert drawn(screen)[0].endswith("b")


async def test_engine_is_picked_from_a_list() -> None:
    node = node_with(LogFile(b"qwen\n"))
    node.known_launches.insert(0, launch(3, "moe/0"))
    node.logs[3] = LogFile(b"moe\n")
    async with logs(node) as (screen, pilot):
        await wait_until(lambda: "qwen" in drawn(screen))
        await pilot.press("e")
        await wait_until(lambda: isinstance(pilot.app.screen, EnginesScreen))
        assert [option.id for option in pilot.app.screen.query_one(OptionList).options] == ["qwen/0", "moe/0"]
        await pilot.press("down", "enter")
        await wait_until(lambda: "moe" in drawn(screen))


async def test_engine_without_launches_says_so() -> None:
    async with logs(RoomNode(), engine="qwen/0") as (screen, _):
        await wait_until(lambda: "never launched" in header(screen))


async def test_node_that_cannot_be_read_is_told_and_recovered_from() -> None:
    node = node_with(LogFile(b"fine\n"))
    log = node.logs.pop(1)
    app = RoomApp(node, FRAME)
    async with app.run_test(size=(80, 24)):
        screen = LogsScreen()
        await app.push_screen(screen)
        await wait_until(lambda: "no such launch" in status(screen))
        node.logs[1] = log
        await wait_until(lambda: "fine" in drawn(screen))
        assert "no such launch" not in status(screen)
