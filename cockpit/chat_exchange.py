"""One question and its answer: asked through the node, saved as they complete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from time import monotonic

import msgspec

from cockpit.chat_answer import AnswerMeter
from cockpit.chat_session import ChatSession, Turn, message_draft
from cockpit.chat_stream import ChatChunk
from cockpit.chat_targets import ChatTarget
from cockpit.client import ClientError, NodeApi

Monotonic = Callable[[], float]


class ChatExchange:
    """Carries a session's exchanges out, one at a time.

    What cannot be saved is still asked and answered: `unsaved` says why, for the operator to see.
    """

    def __init__(self, node: NodeApi, session: ChatSession, *, clock: Monotonic = monotonic) -> None:
        self.session = session
        self.unsaved: str | None = None
        """Why the newest turn is only in memory, or None."""
        self._node = node
        self._clock = clock
        self._reading: asyncio.Task[None] | None = None

    async def save_question(self, turn: Turn) -> None:
        """Store the conversation if it is new or changed, and the question, before it is asked."""
        session = self.session
        try:
            if session.conversation_id is None:
                saved = await self._node.create_conversation(session.draft())
                session.conversation_id = saved.id
            elif session.saved_parameters != session.parameters:
                await self._node.update_conversation(session.conversation_id, session.draft())
            session.saved_parameters = session.parameters
        except ClientError as error:
            self.unsaved = error.message
            return
        await self._save(turn)

    async def retract_answer(self) -> Turn | None:
        """Take back the last answer, here and in the store."""
        turn = self.session.retract_answer()
        if turn is not None and turn.message_id is not None and self.session.conversation_id is not None:
            try:
                await self._node.delete_messages_from(self.session.conversation_id, turn.message_id)
            except ClientError as error:
                self.unsaved = error.message
        return turn

    async def answer(self, target: ChatTarget, on_piece: Callable[[ChatChunk], None]) -> Turn:
        """Ask the open question of `target`; returns the answer's turn, whole, stopped or broken.

        Args:
            on_piece: called with each piece as it comes.
        """
        meter = AnswerMeter(self._clock())
        self._reading = asyncio.create_task(self._read(target, meter, on_piece), name="chat answer")
        try:
            await asyncio.wait({self._reading})
        finally:
            self._reading.cancel()
        if self._reading.cancelled():
            meter.cancel()
        else:
            self._reading.result()
        self._reading = None
        turn = self.session.finish(meter.answer())
        await self._save(turn)
        return turn

    def stop(self) -> bool:
        """Cut the running answer short; False when none runs."""
        return self._reading is not None and self._reading.cancel()

    async def _read(
        self, target: ChatTarget, meter: AnswerMeter, on_piece: Callable[[ChatChunk], None]
    ) -> None:
        parameters = self.session.parameters
        pieces = self._node.chat(
            target.deployment,
            self.session.request_messages(),
            replica=target.replica,
            temperature=parameters.temperature,
            max_tokens=parameters.max_tokens,
        )
        try:
            async for piece in pieces:
                meter.add(piece, self._clock())
                on_piece(piece)
        except ClientError as error:
            meter.fail(error.message, error.hint)
        except msgspec.DecodeError as error:
            meter.fail(f"a piece of the answer is not understood: {error}", "look into the engine's log")
        finally:
            # Closing it here, not when it is collected, is what cancels the request upstream.
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()

    async def _save(self, turn: Turn) -> None:
        if self.session.conversation_id is None:
            return
        try:
            saved = await self._node.add_message(self.session.conversation_id, message_draft(turn))
        except ClientError as error:
            self.unsaved = error.message
            return
        self.unsaved = None
        self.session.stored(turn, saved.id)
