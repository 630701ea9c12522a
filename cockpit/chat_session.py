"""A conversation in memory: its turns, its parameters, and the requests that follow from them.

Pure: no clock, no node. The chat screen and `cockpit chat` hold one and do the effects.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from cockpit.chat_answer import Answer
from engine.api import schema

TITLE_CHARACTERS = 60
"""Longer first questions are cut: the list of saved conversations has one line for each."""
MAX_TEMPERATURE = 2.0
"""The upper end that OpenAI's protocol allows and vLLM keeps to."""
MAX_TOKENS_DIGITS = 9
"""Beyond any context, and within what every JSON reader takes for an integer."""


class ChatParameters(msgspec.Struct, frozen=True):
    """What goes with every request of a conversation."""

    model: str = ""
    """Deployment, or `deployment/replica` when pinned; empty while there is none."""
    system_prompt: str = ""
    temperature: float = 0.7
    max_tokens: int = 512


class Turn(msgspec.Struct, frozen=True):
    """A question, or the answer to the question before it."""

    role: Literal["user", "assistant"]
    content: str
    answer: Answer | None = None
    """Figures and error of an assistant's turn."""
    message_id: int | None = None
    """Set once the node has stored it."""

    @property
    def unanswered(self) -> bool:
        """An assistant's turn that broke off before it said anything."""
        return self.role == "assistant" and not self.content


class ChatSession:
    """One conversation. Owned by whoever holds it; not shared between tasks."""

    def __init__(self, parameters: ChatParameters | None = None) -> None:
        self.parameters = parameters or ChatParameters()
        self.conversation_id: int | None = None
        """Set once the node has stored it."""
        self.title = ""
        self.saved_parameters: ChatParameters | None = None
        """As the node last stored them."""
        self.turns: list[Turn] = []

    @classmethod
    def reopened(cls, conversation: schema.Conversation) -> ChatSession:
        """A saved conversation, ready to go on."""
        session = cls(
            ChatParameters(
                model=conversation.model,
                system_prompt=conversation.system_prompt,
                temperature=conversation.temperature,
                max_tokens=conversation.max_tokens,
            )
        )
        session.conversation_id = conversation.id
        session.title = conversation.title
        session.saved_parameters = session.parameters
        session.turns = [turn for message in conversation.messages if (turn := _turn(message))]
        return session

    def ask(self, text: str) -> Turn:
        """Add a question; the first one names the conversation."""
        turn = Turn("user", text)
        if not self.title:
            self.title = title_of(text)
        self.turns.append(turn)
        return turn

    def finish(self, answer: Answer) -> Turn:
        """Add the answer to the last question, whole, stopped or broken."""
        turn = Turn("assistant", answer.text, answer)
        self.turns.append(turn)
        return turn

    def stored(self, turn: Turn, message_id: int) -> None:
        """The node keeps the turn under this id."""
        for index, known in enumerate(self.turns):
            if known is turn:
                self.turns[index] = msgspec.structs.replace(turn, message_id=message_id)

    def retract_answer(self) -> Turn | None:
        """Take back the last answer, so that its question stands open; None where none follows it."""
        if self.turns and self.turns[-1].role == "assistant":
            return self.turns.pop()
        return None

    @property
    def awaits_answer(self) -> bool:
        """The last turn is a question."""
        return bool(self.turns) and self.turns[-1].role == "user"

    def draft(self) -> schema.ConversationDraft:
        """The conversation as the node stores it."""
        now = self.parameters
        return schema.ConversationDraft(
            title=self.title,
            model=now.model,
            system_prompt=now.system_prompt,
            temperature=now.temperature,
            max_tokens=now.max_tokens,
        )

    def request_messages(self) -> list[dict[str, str]]:
        """The messages of the next request.

        A question that never got a word of answer is left out together with it: two questions in a
        row are an error to the chat templates that insist on alternating roles.
        """
        prompt = self.parameters.system_prompt.strip()
        messages = [{"role": "system", "content": prompt}] if prompt else []
        for turn, following in zip(self.turns, [*self.turns[1:], None], strict=True):
            abandoned = following is not None and (following.role == "user" or following.unanswered)
            if turn.unanswered or (turn.role == "user" and abandoned):
                continue
            messages.append({"role": turn.role, "content": turn.content})
        return messages


def message_draft(turn: Turn) -> schema.MessageDraft:
    """A turn as the node stores it."""
    answer = turn.answer or Answer()
    return schema.MessageDraft(
        role=turn.role,
        content=turn.content,
        served_by=answer.served_by,
        ttft_s=answer.ttft_s,
        tokens_per_s=answer.tokens_per_s,
        completion_tokens=answer.completion_tokens,
        prompt_tokens=answer.prompt_tokens,
        cached_tokens=answer.cached_tokens,
        finish_reason=answer.finish_reason,
        error=answer.error,
    )


def title_of(text: str) -> str:
    """The first line of a question, shortened at a word."""
    line = next((line for line in text.split("\n") if line.strip()), "").strip()
    line = " ".join(line.split())
    if len(line) <= TITLE_CHARACTERS:
        return line
    cut = line[: TITLE_CHARACTERS - 1]
    head, _, _ = cut.rpartition(" ")
    return f"{head or cut}…"


def parse_temperature(text: str) -> float:
    """A temperature.

    Raises:
        ValueError: it is none; the message says what is.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MAX_TEMPERATURE:
        raise ValueError("a number from 0 to 2")
    return value


def parse_max_tokens(text: str) -> int:
    """A limit of answer tokens.

    Raises:
        ValueError: it is none; the message says what is.
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_TOKENS_DIGITS and int(digits)):
        raise ValueError("a whole number from 1")
    return int(digits)


def _turn(message: schema.Message) -> Turn | None:
    if message.role == "user":
        return Turn("user", message.content, message_id=message.id)
    if message.role == "assistant":
        return Turn("assistant", message.content, _answer(message), message.id)
    return None


def _answer(message: schema.Message) -> Answer:
    return Answer(
        text=message.content,
        served_by=message.served_by,
        ttft_s=message.ttft_s,
        tokens_per_s=message.tokens_per_s,
        completion_tokens=message.completion_tokens,
        prompt_tokens=message.prompt_tokens,
        cached_tokens=message.cached_tokens,
        finish_reason=message.finish_reason,
        error=message.error,
    )
