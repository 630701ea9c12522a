"""The launch form: which model, on which GPUs, how?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, cast

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Label, Select, Static, TextArea

from cockpit.client import ClientError, NodeRefusedError
from cockpit.launch_form import (
    Field,
    FormResult,
    LaunchForm,
    name_of,
    read_form,
    review_line,
    uses_gpus,
)
from cockpit.screens.room import RoomHost
from cockpit.widgets.gpu_chooser import GpuChooser
from engine.api.schema import Interpreter, LaunchOptions, LaunchRequest

NO_INTERPRETER = (
    "no Python with vLLM was found; type the path of one, such as /opt/vllm/bin/python "
    "(`cockpit doctor` says where it looked)"
)
SIMULATED = "This node is simulated: the deployment will be too. Start a node without --sim for a real one."
ARGUMENTS = "key = value, one a line: gpu-memory-utilization = 0.85"
SIMULATED_ARGUMENTS = "key = value, one a line: decode_base_s = 0.02"
GROUPING = {False: "a replica on each GPU", True: "one replica over all of them"}


class LaunchScreen(ModalScreen[str | None]):
    """Dismisses with the new deployment's name once the node has accepted it, or None."""

    CSS_PATH = "launch.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "submit", "Launch", priority=True, id="launch.submit", tooltip="Start it"),
        Binding("escape", "dismiss(None)", "Back", id="launch.back", tooltip="Leave without launching"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._options: LaunchOptions | None = None
        self._taken: frozenset[str] = frozenset()
        self._derived_name = ""
        """What the name field was given after the model; another text there was typed and stays."""
        self._tried = False
        """Submitted once: from now on mistakes are told while typing."""

    def compose(self) -> ComposeResult:
        with Vertical(id="launch-box"):
            yield Label("Launch a model", id="launch-title")
            yield Static("", id="launch-note", markup=False)
            with VerticalScroll(id="launch-fields", can_focus=False):
                yield from _field(
                    "model", Input(id="model", placeholder="Qwen/Qwen3-8B, or a folder", compact=True)
                )
                yield from _field("name", Input(id="name", placeholder="from the model", compact=True))
                yield from _field(
                    "python",
                    Select[str]((), id="interpreter", prompt="another, by its path", compact=True),
                    Input(id="python", placeholder="/opt/vllm/bin/python", compact=True),
                )
                yield from _field(
                    "gpus",
                    GpuChooser(),
                    Select[bool](
                        ((text, value) for value, text in GROUPING.items()),
                        id="grouping",
                        value=False,
                        allow_blank=False,
                        compact=True,
                    ),
                )
                yield from _field("replicas", Input("1", id="replicas", compact=True))
                yield from _field(
                    "context", Input(id="context", placeholder="tokens; empty: the model's own", compact=True)
                )
                yield from _field(
                    "arguments",
                    TextArea(
                        id="arguments",
                        compact=True,
                        placeholder=ARGUMENTS,
                        show_line_numbers=False,
                    ),
                )
            yield Static("", id="launch-refusal", markup=False)
            yield Static("reading what this machine has …", id="launch-review", markup=False)
            with Horizontal(id="launch-buttons"):
                yield Button("Launch", id="launch-submit", variant="primary", compact=True, disabled=True)
                yield Button("Back", id="launch-cancel", compact=True)
                yield Label("ctrl+s launches  ·  esc back")

    def on_mount(self) -> None:
        self.query_one("#model").focus()
        self._show_fields()
        self._load()

    @property
    def _host(self) -> RoomHost:
        return cast("RoomHost", self.app)

    @work(group="options", exclusive=True, exit_on_error=False, name="launch options")
    async def _load(self) -> None:
        try:
            options = await self._host.node.launch_options()
        except ClientError as error:
            self._refused(error)
            return
        frame = self._host.frame
        engines = () if frame is None else frame.engines
        self._options = options
        self._taken = frozenset(view.deployment for view in engines)
        owners = {gpu: view.name for view in engines for gpu in view.gpu_indexes}
        chooser = self.query_one("#interpreter", Select)
        chooser.set_options((_interpreter(one), one.python) for one in options.interpreters)
        if options.interpreters:
            chooser.value = options.interpreters[0].python
        self.query_one(GpuChooser).offer(options.gpus, owners)
        self.query_one("#launch-submit", Button).disabled = False
        if options.simulated:
            self.query_one("#arguments", TextArea).placeholder = SIMULATED_ARGUMENTS
        note = SIMULATED if options.simulated else "" if options.interpreters else NO_INTERPRETER
        self.query_one("#launch-note", Static).update(note)
        self._show_fields()
        self._review()

    def _show_fields(self) -> None:
        """Only the fields that mean something for this machine and interpreter."""
        options, form = self._options, self._form()
        known = options is not None
        on_gpus = options is not None and uses_gpus(form, options)
        simulated = options is not None and options.simulated
        by_hand = self.query_one("#interpreter", Select).is_blank()
        self.query_one("#launch-note").display = known and (
            simulated or not (options and options.interpreters)
        )
        self.query_one("#field-python").display = known and not simulated
        self.query_one("#interpreter").display = options is not None and bool(options.interpreters)
        self.query_one("#python").display = by_hand
        self.query_one("#field-gpus").display = on_gpus
        self.query_one("#grouping").display = len(form.gpus) > 1
        self.query_one("#field-replicas").display = known and not on_gpus

    def _form(self) -> LaunchForm:
        chosen = self.query_one("#interpreter", Select)
        model = self.query_one("#model", Input).value
        return LaunchForm(
            model=model,
            name=self.query_one("#name", Input).value if self._name_typed else name_of(model),
            python=self.query_one("#python", Input).value if chosen.is_blank() else str(chosen.value),
            gpus=self.query_one(GpuChooser).chosen,
            as_one_group=self.query_one("#grouping", Select).value is True,
            replicas=self.query_one("#replicas", Input).value,
            context=self.query_one("#context", Input).value,
            arguments=self.query_one("#arguments", TextArea).text,
        )

    @property
    def _name_typed(self) -> bool:
        return self.query_one("#name", Input).value not in ("", self._derived_name)

    @on(Input.Changed, "#model")
    def _model_changed(self, event: Input.Changed) -> None:
        if not self._name_typed:
            self._derived_name = name_of(event.value)
            self.query_one("#name", Input).value = self._derived_name

    @on(Input.Changed)
    @on(TextArea.Changed)
    @on(Select.Changed)
    @on(GpuChooser.Changed)
    def _changed(self) -> None:
        self._show_fields()
        self._review()

    def _review(self) -> FormResult | None:
        """Say what would happen, or what is wrong; mistakes beside their fields once submitted."""
        if self._options is None:
            return None
        result = read_form(self._form(), self._options, self._taken)
        for field in Field:
            problem = result.problems.get(field, "") if self._tried else ""
            line = self.query_one(f"#problem-{field.value}", Static)
            line.display = bool(problem)
            line.update(Content(problem))
        review = self.query_one("#launch-review", Static)
        if result.deployment is not None:
            review.update(Content(f"▸ {review_line(result.deployment)}"))
        elif self._tried:
            review.update(Content(f"{len(result.problems)} to correct"))
        else:
            review.update(Content(f"still to say: {', '.join(result.problems)}"))
        return result

    @on(Button.Pressed, "#launch-cancel")
    def _cancelled(self) -> None:
        self.dismiss(None)

    @on(Input.Submitted)
    def _field_done(self) -> None:
        """Enter goes on: a launch takes GPUs, so it has a key of its own."""
        self.focus_next()

    @on(Button.Pressed, "#launch-submit")
    def action_submit(self) -> None:
        """Launch it, or go to the first mistake."""
        self._tried = True
        result = self._review()
        if result is None:
            return
        if result.deployment is not None:
            self.query_one("#launch-submit", Button).disabled = True
            self._launch(LaunchRequest(deployment=result.deployment))
            return
        first = next(field for field in Field if field in result.problems)
        for widget in self.query(f"#field-{first.value} .launch-input").results(Widget):
            if widget.display:
                widget.focus()
                return

    @work(group="launch", exclusive=True, exit_on_error=False, name="launch")
    async def _launch(self, request: LaunchRequest) -> None:
        self.query_one("#launch-refusal").display = False
        self.query_one("#launch-review", Static).update(Content(f"launching {request.deployment.name} …"))
        try:
            reply = await self._host.node.launch(request)
        except ClientError as error:
            self._refused(error)
            return
        if not reply.durable:
            self.notify("the launch stands, but could not be written down", severity="warning")
        self.dismiss(request.deployment.name)

    def _refused(self, error: ClientError) -> None:
        """The node said no: nothing typed is lost."""
        self.query_one("#launch-submit", Button).disabled = self._options is None
        word = "refused: " if isinstance(error, NodeRefusedError) else ""
        hint = f"; {error.hint}" if error.hint else ""
        refusal = self.query_one("#launch-refusal", Static)
        refusal.display = True
        refusal.update(Content(f"✖ {word}{error.message}{hint}"))
        self._review()


def _field(name: str, *inputs: Widget) -> Iterator[Widget]:
    """A labelled field; its problem stands below it."""
    for widget in inputs:
        widget.add_class("launch-input")
    label = Label(name, classes="launch-label")
    body = Vertical(
        *inputs, Static("", id=f"problem-{name}", classes="launch-problem"), classes="launch-body"
    )
    yield Horizontal(label, body, id=f"field-{name}", classes="launch-field")


def _interpreter(one: Interpreter) -> str:
    build = ", CPU build" if one.cpu_build else ""
    return f"{one.python}  vLLM {one.vllm_version}{build}"
