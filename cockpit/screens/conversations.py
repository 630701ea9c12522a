"""The saved conversations: open one, or delete one."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from cockpit.client import ClientError, NodeApi
from engine.api.schema import Conversation

KEYS = "enter opens  ·  d deletes  ·  esc back"
TITLE_CELLS = 40


class ConversationsScreen(ModalScreen[int | None]):
    """Dismisses with the chosen conversation's id, or None."""

    CSS_PATH = "picker.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("d,delete", "delete", "Delete", id="chat.delete", tooltip="Delete the conversation"),
        Binding("y", "confirm", "Yes, delete", show=False),
    ]

    def __init__(self, node: NodeApi, current: int | None) -> None:
        super().__init__()
        self._node = node
        self._current = current
        self._conversations: tuple[Conversation, ...] = ()
        self._deleting: Conversation | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="picker"):
            yield Label("Saved conversations", classes="picker-title")
            yield OptionList(compact=True)
            yield Label("reading …", classes="picker-note", markup=False)

    def on_mount(self) -> None:
        self._load()

    @work(exclusive=True, exit_on_error=False, name="conversations")
    async def _load(self) -> None:
        try:
            self._conversations = await self._node.conversations()
        except ClientError as error:
            self._note(f"cannot be read: {error.message}")
            return
        options = self.query_one(OptionList)
        options.clear_options()
        now_s = time.time()
        options.add_options(_option(conversation, now_s) for conversation in self._conversations)
        ids = [conversation.id for conversation in self._conversations]
        if ids:
            options.highlighted = ids.index(self._current) if self._current in ids else 0
        options.focus()
        self._note(KEYS if ids else "none yet; every conversation is saved as it goes")

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(int(event.option_id or 0))

    @on(OptionList.OptionHighlighted)
    def _moved(self) -> None:
        if self._deleting is not None:
            self._deleting = None
            self._note(KEYS)

    def action_back(self) -> None:
        """Back out one level: of the question, then of the list."""
        if self._deleting is not None:
            self._deleting = None
            self._note(KEYS)
        else:
            self.dismiss(None)

    def action_delete(self) -> None:
        """Ask before deleting."""
        index = self.query_one(OptionList).highlighted
        if index is not None:
            self._deleting = self._conversations[index]
            self._note(f"delete “{self._deleting.title}” for good?  y deletes  ·  esc keeps")

    def action_confirm(self) -> None:
        """Delete what was asked for."""
        if self._deleting is not None:
            conversation, self._deleting = self._deleting, None
            self._delete(conversation)

    @work(exclusive=True, exit_on_error=False, name="deletion")
    async def _delete(self, conversation: Conversation) -> None:
        try:
            await self._node.delete_conversation(conversation.id)
        except ClientError as error:
            self._note(f"“{conversation.title}” was not deleted: {error.message}")
            return
        self._load()

    def _note(self, text: str) -> None:
        self.query_one(".picker-note", Label).update(Content(text))


def _option(conversation: Conversation, now_s: float) -> Option:
    title = conversation.title or "untitled"
    title = title if len(title) <= TITLE_CELLS else title[: TITLE_CELLS - 1] + "…"
    row = f"{title:<{TITLE_CELLS}} {conversation.model:<16} {age(now_s - conversation.updated_at_s):>8}"
    return Option(Content(row), id=str(conversation.id))


def age(seconds: float) -> str:
    """How long ago, in one unit: `now`, `5 min`, `3 h`, `12 d`."""
    if seconds < 60:
        return "now"
    if seconds < 3_600:
        return f"{seconds // 60:.0f} min"
    return f"{seconds // 3_600:.0f} h" if seconds < 86_400 else f"{seconds // 86_400:.0f} d"
