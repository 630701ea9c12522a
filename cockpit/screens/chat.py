"""Chat: does this model answer well, and how fast?"""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Button, Input, Label
from textual.worker import Worker, WorkerState

from cockpit.chat_exchange import ChatExchange
from cockpit.chat_session import ChatParameters, ChatSession, parse_max_tokens, parse_temperature
from cockpit.chat_stream import ChatChunk
from cockpit.chat_targets import ChatTarget, chat_targets, find_target, first_ready
from cockpit.client import ClientError
from cockpit.screens.conversations import ConversationsScreen
from cockpit.screens.room import Room
from cockpit.screens.targets import TargetsScreen
from cockpit.widgets.prompt import Prompt
from cockpit.widgets.transcript import Transcript
from engine.model import Frame

EMPTY = "Ask something. Enter sends, ctrl+j starts a new line, ctrl+t picks the model or pins one replica."


class ChatScreen(Room):
    """A conversation with a deployment, or with one replica of it."""

    CSS_PATH = "chat.tcss"
    BINDING_GROUP_TITLE = "Chat"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "stop", "Stop", id="chat.stop", tooltip="Stop the answer; what came is kept"),
        Binding("ctrl+r", "retry", "Retry", id="chat.retry", tooltip="Take the last answer back, ask again"),
        Binding("ctrl+t", "pick_target", "Model", id="chat.model", tooltip="Choose who answers"),
        Binding("ctrl+n", "new", "New", id="chat.new", tooltip="Begin a new conversation"),
        Binding("ctrl+o", "open", "Saved", id="chat.open", tooltip="Open a saved conversation"),
        Binding(
            "escape",
            "escape",
            "Back",
            show=False,
            id="chat.escape",
            tooltip="Stop the answer, else leave the chat",
        ),
    ]

    def __init__(self, target: str | None = None) -> None:
        """Args:
        target: deployment or replica to ask first; default the first that is ready.
        """
        super().__init__()
        self._wanted = target or ""
        self._targets: tuple[ChatTarget, ...] = ()
        self._exchange: ChatExchange | None = None
        self._asking: ChatExchange | None = None
        """The exchange whose answer is under way; it may belong to a conversation already left."""

    def compose_room(self) -> ComposeResult:
        with Horizontal(id="chat-bar"):
            yield Button("no model", id="chat-target", compact=True)
            yield Label("temp")
            yield Input("0.7", id="chat-temperature", compact=True, select_on_focus=True)
            yield Label("max")
            yield Input("512", id="chat-max-tokens", compact=True, select_on_focus=True)
        with Horizontal(id="chat-system-bar"):
            yield Label("system")
            yield Input(id="chat-system", compact=True, placeholder="none")
        yield Transcript(self._is_simulated)
        yield Prompt()

    async def on_mount(self) -> None:
        self._begin(ChatSession(ChatParameters(model=self._wanted)))
        self.show_frame(self.frame)
        self.query_one(Prompt).focus()
        await self._transcript.show((), EMPTY)

    def show_frame(self, frame: Frame | None) -> None:
        """Follow the engines' states; the choice itself is the operator's."""
        self._targets = () if frame is None else chat_targets(frame.engines)
        if self._exchange is None:
            return
        session = self._session
        if not session.parameters.model and (target := first_ready(self._targets)) is not None:
            self._choose(target.key)
        self._show_target()

    def ask_of(self, key: str) -> None:
        """Ask this deployment or replica from now on."""
        self._wanted = key
        if self._exchange is not None:
            self._choose(key)

    @property
    def _transcript(self) -> Transcript:
        return self.query_one(Transcript)

    @property
    def _session(self) -> ChatSession:
        assert self._exchange is not None, "the screen is mounted"
        return self._exchange.session

    @property
    def _busy(self) -> bool:
        return self._asking is not None and self._asking is self._exchange

    def _begin(self, session: ChatSession) -> None:
        if self._exchange is not None:
            self._exchange.stop()
        self._exchange = ChatExchange(self.node, session)
        parameters = session.parameters
        self.query_one("#chat-system", Input).value = parameters.system_prompt
        self.query_one("#chat-temperature", Input).value = f"{parameters.temperature:g}"
        self.query_one("#chat-max-tokens", Input).value = str(parameters.max_tokens)

    def _choose(self, key: str) -> None:
        parameters = self._session.parameters
        self._session.parameters = ChatParameters(
            key, parameters.system_prompt, parameters.temperature, parameters.max_tokens
        )
        self._show_target()

    def _show_target(self) -> None:
        target = find_target(self._targets, self._session.parameters.model)
        button = self.query_one("#chat-target", Button)
        if target is None:
            button.label = "no model"
        else:
            mark = " SIM" if target.simulated else ""
            button.label = f"{target.label} {'●' if target.ready else '◌'} {target.state}{mark}"
        button.set_class(target is None or not target.ready, "-unready")

    def _is_simulated(self, engine: str | None) -> bool:
        """Of an engine that is gone only the node's whole nature is known."""
        frame = self.frame
        if frame is None or engine is None:
            return False
        known = next((view.simulated for view in frame.engines if view.name == engine), None)
        return (frame.node.config or "").startswith("sim:") if known is None else known

    def _read_parameters(self) -> bool:
        """Take the parameters from their fields; False, with the field marked, where one is wrong."""
        temperature = self.query_one("#chat-temperature", Input)
        max_tokens = self.query_one("#chat-max-tokens", Input)
        for field in (temperature, max_tokens):
            field.remove_class("-invalid")
        field, name = temperature, "temperature"
        try:
            warmth = parse_temperature(temperature.value)
            field, name = max_tokens, "max tokens"
            limit = parse_max_tokens(max_tokens.value)
        except ValueError as error:
            field.add_class("-invalid")
            field.focus()
            self.notify(f"{name} must be {error}", severity="warning")
            return False
        session = self._session
        session.parameters = ChatParameters(
            session.parameters.model, self.query_one("#chat-system", Input).value, warmth, limit
        )
        return True

    @on(Prompt.Submitted)
    def _submitted(self, event: Prompt.Submitted) -> None:
        event.stop()
        target = self._usable_target()
        if target is None or not self._read_parameters():
            return
        event.prompt.clear()
        self._run_exchange(target, event.text)

    def _usable_target(self) -> ChatTarget | None:
        """Who is to answer, or None after saying why nobody can."""
        target = find_target(self._targets, self._session.parameters.model)
        if self._busy:
            self.notify("an answer is under way; ctrl+s stops it", severity="warning")
        elif target is None:
            self.notify("no deployment runs; launch one from the fleet with n", severity="warning")
        elif not target.ready:
            self.notify(f"{target.key} is {target.state}; ctrl+t picks another", severity="warning")
        else:
            return target
        return None

    def _run_exchange(self, target: ChatTarget, question: str | None) -> None:
        assert self._exchange is not None, "the screen is mounted"
        self._asking = self._exchange
        self._answer(self._exchange, target, question)
        self.refresh_bindings()

    @work(group="chat", name="chat exchange", exit_on_error=False)
    async def _answer(self, exchange: ChatExchange, target: ChatTarget, question: str | None) -> None:
        """Ask a question, or the last one again where `question` is None, and show the answer."""
        transcript = self._transcript
        try:
            if question is None:
                if await exchange.retract_answer() is not None:
                    await transcript.remove_last_answer()
            else:
                if not exchange.session.turns:
                    await transcript.show(())
                turn = exchange.session.ask(question)
                await transcript.add_question(turn)
                await exchange.save_question(turn)
            if exchange is not self._exchange:
                return
            await transcript.begin_answer(target.key if target.replica else f"{target.key} routed")

            def show_piece(piece: ChatChunk) -> None:
                if exchange is self._exchange:
                    transcript.write(piece.text, piece.reasoning)

            turn = await exchange.answer(target, show_piece)
            if exchange is self._exchange and turn.answer is not None:
                await transcript.end_answer(turn.answer)
                if exchange.unsaved:
                    await transcript.notice(f"not saved: {exchange.unsaved}", warning=True)
        finally:
            if self._asking is exchange:
                self._asking = None
            self.refresh_bindings()

    @on(Worker.StateChanged)
    def _worker_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            event.stop()
            self.notify(f"{event.worker.name}: {event.worker.error}", severity="error")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A disabled key stays in the footer, greyed."""
        if self._exchange is None:
            return True
        if action == "stop":
            return True if self._busy else None
        if action == "retry":
            return True if self._session.turns and not self._busy else None
        return True

    def action_stop(self) -> None:
        """Stop the answer; what came is kept."""
        if self._exchange is not None:
            self._exchange.stop()

    def action_escape(self) -> None:
        """Back out one level: stop the answer, then leave the field, then the screen."""
        if self._busy:
            self.action_stop()
        elif not isinstance(self.focused, Prompt):
            self.query_one(Prompt).focus()
        else:
            self.leave()

    def action_retry(self) -> None:
        """Take the last answer back and ask again, of whoever is chosen now."""
        if not self._session.turns:
            return
        target = self._usable_target()
        if target is not None and self._read_parameters():
            self._run_exchange(target, None)

    @on(Button.Pressed, "#chat-target")
    def action_pick_target(self) -> None:
        """Choose who answers."""

        def choose(key: str | None) -> None:
            if key is not None:
                self._choose(key)
            self.query_one(Prompt).focus()

        self.app.push_screen(TargetsScreen(self._targets, self._session.parameters.model), choose)

    @work(group="open", exclusive=True, exit_on_error=False, name="new conversation")
    async def action_new(self) -> None:
        """Begin a new conversation with the same parameters."""
        model = self._session.parameters.model
        if not self._read_parameters():
            return
        self._begin(ChatSession(ChatParameters(model, *_parameters(self._session)[1:])))
        await self._transcript.show((), EMPTY)
        self.query_one(Prompt).focus()

    def action_open(self) -> None:
        """Open a saved conversation."""

        def opened(conversation_id: int | None) -> None:
            if conversation_id is not None:
                self._reopen(conversation_id)

        self.app.push_screen(ConversationsScreen(self.node, self._session.conversation_id), opened)

    @work(group="open", exclusive=True, exit_on_error=False, name="saved conversation")
    async def _reopen(self, conversation_id: int) -> None:
        try:
            saved = await self.node.conversation(conversation_id)
        except ClientError as error:
            self.notify(f"{error.message}; {error.hint}" if error.hint else error.message, severity="error")
            return
        self._begin(ChatSession.reopened(saved))
        self._show_target()
        await self._transcript.show(self._session.turns, EMPTY)
        self.query_one(Prompt).focus()


def _parameters(session: ChatSession) -> tuple[str, str, float, int]:
    now = session.parameters
    return now.model, now.system_prompt, now.temperature, now.max_tokens
