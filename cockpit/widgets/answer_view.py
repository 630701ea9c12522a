"""One answer of a transcript: Markdown that may still stream, and its figures below."""

from __future__ import annotations

from time import monotonic

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Markdown, Static

from cockpit.chat_answer import Answer, figures_line

FLUSH_INTERVAL_S = 0.1
"""An engine sends a hundred pieces a second; parsing Markdown for each would take the screen's time."""
DRAWING_SHARE = 0.15
"""How much of the screen's time a streaming answer may take. A flush draws its last block anew as a whole:
that takes 2 ms for a short paragraph and 500 ms for a code block of a thousand lines."""
LONGEST_PAUSE_S = 5.0
"""An answer that shows nothing new for longer looks stuck."""


class AnswerView(Vertical):
    """An answer, by whom, and how fast."""

    DEFAULT_CSS = """
    AnswerView {
        height: auto;
        margin: 0 0 1 0;
        & > Markdown { padding: 0 1; margin: 0; background: transparent; }
        & > .answer-thinking { color: $text-muted; text-style: italic; padding: 0 1; display: none; }
        & > .answer-error { color: $text-error; padding: 0 1; display: none; }
        & > .answer-figures { color: $text-muted; padding: 0 1; }
        & > .answer-figures.-simulated { color: $text-warning; }
    }
    """

    def __init__(self, asked: str, turn: Answer | None = None, *, simulated: bool = False) -> None:
        super().__init__()
        self._asked = asked
        self._answer = turn
        self._simulated = simulated
        self._timer: Timer | None = None
        self._pending: list[str] = []
        self._said_anything = False
        self._due_s = 0.0
        """When the next flush may be, monotonic."""
        self._thought_characters = 0

    def compose(self) -> ComposeResult:
        yield Static("", classes="answer-thinking", markup=False)
        # Links of an answer must not open a browser on a key press meant for the chat.
        yield Markdown(self._answer.text if self._answer else "", open_links=False)
        yield Static("", classes="answer-error", markup=False)
        yield Static("", classes="answer-figures", markup=False)

    def on_mount(self) -> None:
        if self._answer is not None:
            self._show_outcome(self._answer)
        else:
            self.query_one(".answer-figures", Static).update(f"{self._asked}  …")
            self._timer = self.set_interval(FLUSH_INTERVAL_S, self._flush, name="answer flush")

    def write(self, text: str, reasoning: str = "") -> None:
        """Take a piece; drawn with the next flush."""
        self._thought_characters += len(reasoning)
        if text:
            self._pending.append(text)
            self._said_anything = True

    async def finish(self, answer: Answer, *, simulated: bool) -> None:
        """The answer is over: draw it whole once, with its figures."""
        self._answer, self._simulated = answer, simulated
        if self._timer is not None:
            self._timer.stop()
        self._pending.clear()
        # What is appended piecewise may leave a code fence undrawn that closed late.
        await self.query_one(Markdown).update(answer.text)
        self._show_outcome(answer)

    async def _flush(self) -> None:
        if self._thought_characters and not self._said_anything:
            thinking = self.query_one(".answer-thinking", Static)
            thinking.display = True
            thinking.update(f"thinking, {self._thought_characters:,} characters")
        began_s = monotonic()
        if not self._pending or began_s < self._due_s:
            return
        text = "".join(self._pending)
        self._pending.clear()
        self._due_s = began_s + LONGEST_PAUSE_S
        # Not `Markdown.get_stream`, which does not tell when a piece is drawn and so cannot be paced.
        await self.query_one(Markdown).append(text)
        self.call_after_refresh(self._drawn, began_s)

    def _drawn(self, began_s: float) -> None:
        """A flush is on the screen: wait in proportion to what it cost."""
        now_s = monotonic()
        self._due_s = now_s + min((now_s - began_s) * (1 / DRAWING_SHARE - 1), LONGEST_PAUSE_S)

    def _show_outcome(self, answer: Answer) -> None:
        thinking = self.query_one(".answer-thinking", Static)
        thinking.display = bool(answer.reasoning)
        thinking.update(f"thought for {len(answer.reasoning):,} characters")
        self.query_one(Markdown).display = bool(answer.text)
        error = self.query_one(".answer-error", Static)
        error.display = answer.error is not None
        if answer.error is not None:
            hint = f"; {answer.hint}" if answer.hint else ""
            error.update(Content(f"✖ {answer.error}{hint} – ctrl+r asks again"))
        figures = self.query_one(".answer-figures", Static)
        # An answer that never came has nothing to measure.
        figures.display = answer.error is None or answer.ttft_s is not None
        figures.set_class(self._simulated, "-simulated")
        figures.update(Content(figures_line(answer, simulated=self._simulated)))
