"""Conversations and remembered choices, from the store to the wire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from engine.api import schema
from engine.errors import SpecError, StateError, UnknownTargetError
from storage.errors import RejectedError, StorageError, UnknownRecordError
from storage.records import ConversationRecord, ConversationValues, MessageRecord, MessageValues
from storage.store import Store


class NodeMemory:
    """Satisfies `engine.api.control.Memory`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def conversations(self) -> tuple[schema.Conversation, ...]:
        """Last used first, without messages."""
        with _refusals():
            return tuple(map(_conversation, await self._store.read.conversations()))

    async def conversation(self, conversation_id: int) -> schema.Conversation:
        """One with its messages."""
        with _refusals():
            return _conversation(await self._store.conversation(conversation_id))

    async def create_conversation(self, draft: schema.ConversationDraft) -> schema.Conversation:
        """Begin one."""
        with _refusals():
            return _conversation(await self._store.create_conversation(_values(draft)))

    async def update_conversation(
        self, conversation_id: int, draft: schema.ConversationDraft
    ) -> schema.Conversation:
        """Change one."""
        with _refusals():
            return _conversation(await self._store.update_conversation(conversation_id, _values(draft)))

    async def delete_conversation(self, conversation_id: int) -> None:
        """Remove one."""
        with _refusals():
            await self._store.delete_conversation(conversation_id)

    async def add_message(self, conversation_id: int, draft: schema.MessageDraft) -> schema.Message:
        """Append a turn."""
        values = msgspec.convert(draft, MessageValues, from_attributes=True)
        with _refusals():
            return _message(await self._store.add_message(conversation_id, values))

    async def delete_messages_from(self, conversation_id: int, message_id: int) -> None:
        """Remove a turn and all later ones."""
        with _refusals():
            await self._store.conversation(conversation_id)
            await self._store.delete_messages_from(conversation_id, message_id)

    async def setting(self, key: str) -> str | None:
        """A remembered choice."""
        with _refusals():
            return await self._store.read.setting(key)

    async def set_setting(self, key: str, value: str | None) -> None:
        """Remember a choice."""
        with _refusals():
            await self._store.set_setting(key, value)


@contextmanager
def _refusals() -> Iterator[None]:
    """The store's refusals in the machine's words."""
    try:
        yield
    except UnknownRecordError as error:
        raise UnknownTargetError(error.message, error.hint) from error
    except RejectedError as error:
        raise SpecError(error.message, error.hint) from error
    except StorageError as error:
        raise StateError(error.message, error.hint) from error


def _values(draft: schema.ConversationDraft) -> ConversationValues:
    return msgspec.convert(draft, ConversationValues, from_attributes=True)


def _conversation(record: ConversationRecord) -> schema.Conversation:
    return msgspec.convert(record, schema.Conversation, from_attributes=True)


def _message(record: MessageRecord) -> schema.Message:
    return msgspec.convert(record, schema.Message, from_attributes=True)
