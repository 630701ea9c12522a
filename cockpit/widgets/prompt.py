"""Where the operator types a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea


class Prompt(TextArea):
    """Enter sends, shift+enter or ctrl+j starts a new line: the latter reaches through every terminal."""

    BINDING_GROUP_TITLE = "Question"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send", priority=True, id="chat.send", tooltip="Ask the model"),
        Binding(
            "ctrl+j,shift+enter",
            "newline",
            "Line",
            key_display="^j",
            show=False,  # the empty transcript names it, and the footer has no room for it at 80 columns
            priority=True,
            id="chat.newline",
            tooltip="Start a new line",
        ),
    ]
    DEFAULT_CSS = """
    Prompt {
        height: auto;
        max-height: 8;
        border: none;
        padding: 0 1;
    }
    """

    @dataclass
    class Submitted(Message):
        """The operator sends the text."""

        prompt: Prompt
        text: str

    def __init__(self) -> None:
        super().__init__(
            id="prompt",
            compact=True,
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
            placeholder="Ask the model",
        )

    def action_submit(self) -> None:
        """Send what stands here; blank text is no question."""
        if self.text.strip():
            self.post_message(self.Submitted(self, self.text.strip()))

    def action_newline(self) -> None:
        """Start a new line."""
        self.insert("\n")
