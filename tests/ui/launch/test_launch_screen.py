"""The launch form: what it offers, what it refuses, what it asks of the node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot
from textual.widgets import Input, Select, Static, TextArea

from cockpit.client import NodeRefusedError
from cockpit.screens.launch import LaunchScreen
from cockpit.widgets.gpu_chooser import GpuChooser
from engine.api.schema import Interpreter, LaunchOptions
from engine.model import DeploymentSpec, Frame, GpuReading, SimulatedEngine
from tests.support.room_node import RoomNode, engine_view, frame_of
from tests.support.wait_until import wait_until
from tests.ui.room_app import RoomApp

GPUS = tuple(
    GpuReading(
        index=index,
        uuid=f"GPU-{index}",
        name="H100-80G",
        at_s=0.0,
        memory_used_bytes=2**30 * (60 if index == 0 else 1),
        memory_total_bytes=80 * 2**30,
    )
    for index in range(4)
)
REAL = LaunchOptions(
    interpreters=(Interpreter("/opt/vllm/bin/python", "0.32.0", cpu_build=False),), gpus=GPUS, simulated=False
)
BUSY = frame_of(engine_view("moe/0", gpus=(0,)), gpus=GPUS)


@asynccontextmanager
async def form(
    options: LaunchOptions = REAL, frame: Frame = BUSY, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[LaunchScreen, Pilot[None], RoomNode, list[str | None]]]:
    """An open form, its node, and what it was dismissed with."""
    node = RoomNode()
    node.options = options
    results: list[str | None] = []
    app = RoomApp(node, frame)
    async with app.run_test(size=size) as pilot:
        screen = LaunchScreen()
        await app.push_screen(screen, results.append)
        await wait_until(lambda: not screen.query_one("#launch-submit").disabled)
        yield screen, pilot, node, results


def review(screen: LaunchScreen) -> str:
    return str(screen.query_one("#launch-review", Static).content)


def problem(screen: LaunchScreen, field: str) -> str:
    line = screen.query_one(f"#problem-{field}", Static)
    return str(line.content) if line.display else ""


async def test_model_alone_is_enough_and_free_gpus_are_chosen() -> None:
    async with form() as (screen, pilot, node, results):
        screen.query_one("#model", Input).value = "Qwen/Qwen3-8B"
        await wait_until(lambda: "qwen3-8b" in review(screen))
        assert "3 replicas of qwen3-8b on gpu1, gpu2, gpu3" in review(screen)
        labels = [str(option.prompt) for option in screen.query_one(GpuChooser).options]
        assert "60.0 of 80 GiB" in labels[0]
        assert "moe/0" in labels[0]

        await pilot.press("ctrl+s")
        await wait_until(lambda: results == ["qwen3-8b"])
        assert node.launched[0].deployment == DeploymentSpec(
            name="qwen3-8b", model="Qwen/Qwen3-8B", gpus=[1, 2, 3], python="/opt/vllm/bin/python"
        )


async def test_all_fields_reach_the_deployment() -> None:
    async with form() as (screen, pilot, node, results):
        screen.query_one("#model", Input).value = "/models/llama"
        screen.query_one("#name", Input).value = "big"
        screen.query_one(GpuChooser).choose(2, 3)
        screen.query_one("#grouping", Select).value = True
        screen.query_one("#context", Input).value = "32768"
        screen.query_one("#arguments", TextArea).text = 'dtype = "half"'
        await wait_until(lambda: "1 replica of big on gpu2+gpu3, 32,768 tokens" in review(screen))
        await pilot.press("ctrl+s")
        await wait_until(lambda: results == ["big"])

        assert node.launched[0].deployment == DeploymentSpec(
            name="big",
            model="/models/llama",
            gpus=[[2, 3]],
            python="/opt/vllm/bin/python",
            args={"max-model-len": 32768, "dtype": "half"},
        )


async def test_gpu_that_somebody_else_uses_is_not_chosen() -> None:
    async with form(frame=frame_of(gpus=GPUS)) as (screen, _, _, _):
        assert screen.query_one(GpuChooser).chosen == (1, 2, 3)


async def test_gpus_are_ticked_with_the_keyboard() -> None:
    async with form() as (screen, pilot, _, _):
        chooser = screen.query_one(GpuChooser)
        chooser.focus()
        chooser.highlighted = 1
        await pilot.press("space", "down", "enter", "home", "space")
        await wait_until(lambda: chooser.chosen == (0, 3))

        assert [str(option.prompt)[:3] for option in chooser.options] == ["[x]", "[ ]", "[ ]", "[x]"]
        await wait_until(lambda: bool(screen.query_one("#grouping").display))


async def test_mistakes_stand_beside_their_fields_and_go_when_corrected() -> None:
    async with form() as (screen, pilot, node, results):
        screen.query_one("#context", Input).value = "lots"
        await pilot.press("ctrl+s")
        await wait_until(lambda: problem(screen, "model") != "")
        assert "32768" in problem(screen, "context")
        assert screen.query_one("#model").has_focus

        screen.query_one("#context", Input).value = "4096"
        await wait_until(lambda: problem(screen, "context") == "")
        assert node.launched == []
        assert results == []


async def test_refusal_of_the_node_is_shown_and_nothing_typed_is_lost() -> None:
    async with form() as (screen, pilot, node, results):
        node.launch_error = NodeRefusedError("gpu1 is used by moe/1", "choose another GPU", status=400)
        screen.query_one("#model", Input).value = "Qwen/Qwen3-8B"
        await pilot.press("ctrl+s")
        refusal = screen.query_one("#launch-refusal", Static)
        await wait_until(lambda: "gpu1 is used by moe/1; choose another GPU" in str(refusal.content))
        assert screen.query_one("#model", Input).value == "Qwen/Qwen3-8B"
        assert results == []

        node.launch_error = None
        await pilot.press("ctrl+s")
        await wait_until(lambda: results == ["qwen3-8b"])


async def test_without_an_interpreter_it_says_how_to_point_to_one() -> None:
    options = LaunchOptions(interpreters=(), gpus=GPUS, simulated=False)
    async with form(options) as (screen, pilot, node, results):
        assert "cockpit doctor" in str(screen.query_one("#launch-note", Static).content)
        screen.query_one("#model", Input).value = "m"
        await pilot.press("ctrl+s")
        await wait_until(lambda: "bin/python" in problem(screen, "python"))
        await wait_until(lambda: screen.query_one("#python").has_focus)

        screen.query_one("#python", Input).value = "/mine/bin/python"
        await pilot.press("ctrl+s")
        await wait_until(lambda: results == ["m"])
        assert node.launched[0].deployment.python == "/mine/bin/python"


async def test_cpu_build_asks_for_replicas_instead_of_gpus() -> None:
    options = LaunchOptions(
        interpreters=(Interpreter("/opt/cpu/bin/python", "0.32.0", cpu_build=True),), gpus=(), simulated=False
    )
    async with form(options) as (screen, pilot, node, results):
        assert screen.query_one("#field-replicas").display
        assert not screen.query_one("#field-gpus").display
        screen.query_one("#model", Input).value = "tiny"
        screen.query_one("#replicas", Input).value = "2"
        await pilot.press("ctrl+s")
        await wait_until(lambda: results == ["tiny"])

        assert node.launched[0].deployment.replicas == 2


async def test_simulated_node_makes_simulated_deployments_and_says_so() -> None:
    options = LaunchOptions(interpreters=(), gpus=GPUS, simulated=True)
    async with form(options) as (screen, pilot, node, results):
        assert "simulated" in str(screen.query_one("#launch-note", Static).content)
        assert not screen.query_one("#field-python").display
        screen.query_one("#model", Input).value = "Qwen/Qwen3-8B"
        await wait_until(lambda: "simulated replicas" in review(screen))
        await pilot.press("ctrl+s")
        await wait_until(lambda: results == ["qwen3-8b"])

        spec = node.launched[0].deployment
        assert (spec.backend, spec.python, spec.simulated) == ("simulated", None, SimulatedEngine())


async def test_typed_name_no_longer_follows_the_model() -> None:
    async with form() as (screen, pilot, _, _):
        model, name = screen.query_one("#model", Input), screen.query_one("#name", Input)
        model.value = "Qwen/Qwen3-8B"
        await wait_until(lambda: name.value == "qwen3-8b")
        name.value = "mine"
        await pilot.pause()
        model.value = "Qwen/Qwen3-14B"
        await pilot.pause()

        assert name.value == "mine"


async def test_interpreter_may_be_another_by_its_path() -> None:
    async with form() as (screen, pilot, node, results):
        screen.query_one("#interpreter", Select).clear()
        await wait_until(lambda: bool(screen.query_one("#python").display))
        screen.query_one("#python", Input).value = "/mine/bin/python"
        screen.query_one("#model", Input).value = "m"
        await pilot.press("ctrl+s")
        await wait_until(lambda: results == ["m"])

        assert node.launched[0].deployment.python == "/mine/bin/python"


async def test_escape_leaves_without_launching() -> None:
    async with form() as (screen, pilot, node, results):
        screen.query_one("#model", Input).value = "m"
        await pilot.press("escape")
        await wait_until(lambda: results == [None])

        assert node.launched == []


async def test_whole_form_and_its_buttons_fit_80x24() -> None:
    async with form(LaunchOptions(interpreters=REAL.interpreters, gpus=GPUS, simulated=False)) as (
        screen,
        _,
        _,
        _,
    ):
        for selector in ("#model", "#launch-review", "#launch-submit"):
            assert screen.region.contains_region(screen.query_one(selector).region)
