"""The turns of a conversation, oldest first, the newest kept in sight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from cockpit.chat_answer import Answer
from cockpit.chat_session import Turn
from cockpit.widgets.answer_view import AnswerView

SHOWN_TURNS = 40
"""Each answer is a tree of widgets; older turns of a long conversation are counted, not drawn."""

IsSimulated = Callable[[str | None], bool]
"""Whether an engine of that name is a simulated one."""


class Transcript(VerticalScroll):
    """Scrolls by itself while an answer grows, until the operator scrolls up."""

    BINDING_GROUP_TITLE = "Transcript"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("down,j", "scroll_down", "Down", show=False),
    ]
    DEFAULT_CSS = """
    Transcript {
        height: 1fr;
        scrollbar-size-vertical: 1;
        & > .question { padding: 0 1; margin: 0 0 1 0; color: $text-accent; }
        & > .notice { padding: 0 1; margin: 0 0 1 0; color: $text-muted; }
        & > .notice.-warning { color: $text-warning; }
    }
    """

    def __init__(self, is_simulated: IsSimulated) -> None:
        super().__init__(id="transcript")
        self._is_simulated = is_simulated
        self._current: AnswerView | None = None

    def on_mount(self) -> None:
        self.anchor()

    async def show(self, turns: Sequence[Turn], empty: str = "") -> None:
        """Draw these turns instead of what is there."""
        self._current = None
        shown = turns[-SHOWN_TURNS:]
        with self.app.batch_update():
            await self.remove_children()
            if hidden := len(turns) - len(shown):
                await self.notice(f"{hidden} earlier messages are saved and not drawn")
            if not turns and empty:
                await self.notice(empty)
            await self.mount_all(self._turn(turn) for turn in shown)
        self.anchor()

    async def add_question(self, turn: Turn) -> None:
        """Add what the operator asked."""
        await self.mount(self._turn(turn))
        self.anchor()

    async def begin_answer(self, asked: str) -> None:
        """Add an answer that will stream; `asked` names who was asked, until it is known who answers."""
        self._current = AnswerView(asked)
        await self.mount(self._current)
        self.anchor()

    def write(self, text: str, reasoning: str = "") -> None:
        """A piece of the streaming answer."""
        if self._current is not None:
            self._current.write(text, reasoning)

    async def end_answer(self, answer: Answer) -> None:
        """The streaming answer is whole, stopped or broken."""
        if self._current is not None:
            view, self._current = self._current, None
            await view.finish(answer, simulated=self._is_simulated(answer.served_by))

    async def remove_last_answer(self) -> None:
        """Take the last answer away."""
        answers = self.query(AnswerView)
        if answers:
            await answers.last().remove()

    async def notice(self, text: str, *, warning: bool = False) -> None:
        """Add a line that belongs to no turn."""
        classes = "notice -warning" if warning else "notice"
        await self.mount(Static(Content(text), classes=classes))

    def _turn(self, turn: Turn) -> Static | AnswerView:
        if turn.role == "user":
            return Static(Content.assemble(("you  ", "bold"), turn.content), classes="question")
        answer = turn.answer or Answer(text=turn.content)
        return AnswerView("", answer, simulated=self._is_simulated(answer.served_by))
