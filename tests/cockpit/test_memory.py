"""Conversations and choices through the store and back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.memory import NodeMemory
from engine.api import schema
from engine.errors import SpecError, StateError, UnknownTargetError
from storage.errors import StorageError
from storage.store import Store, open_store

DRAFT = schema.ConversationDraft(
    title="A talk", model="qwen/0", system_prompt="be brief", temperature=0.1, max_tokens=7
)
ANSWER = schema.MessageDraft(
    role="assistant",
    content="Hello \u2028 wörld",
    served_by="qwen/1",
    ttft_s=0.1,
    tokens_per_s=42.0,
    completion_tokens=2,
    prompt_tokens=3,
    cached_tokens=1,
    finish_reason="stop",
    error="cut",
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "c.db") as store:
        yield store


@pytest.fixture
def memory(store: Store) -> NodeMemory:
    return NodeMemory(store)


async def test_a_conversation_comes_back_with_its_turns_in_order(memory: NodeMemory) -> None:
    talk = await memory.create_conversation(DRAFT)
    question = await memory.add_message(talk.id, schema.MessageDraft(role="user", content="Hi"))
    answer = await memory.add_message(talk.id, ANSWER)
    found = await memory.conversation(talk.id)
    for field in DRAFT.__struct_fields__:
        assert getattr(found, field) == getattr(DRAFT, field)
    assert found.messages == (question, answer)
    for field in ANSWER.__struct_fields__:
        assert getattr(answer, field) == getattr(ANSWER, field)


async def test_a_list_has_the_last_used_first_and_no_turns(memory: NodeMemory) -> None:
    first, second = await memory.create_conversation(DRAFT), await memory.create_conversation(DRAFT)
    await memory.add_message(first.id, ANSWER)
    found = await memory.conversations()
    assert [talk.id for talk in found] == [first.id, second.id]
    assert [talk.messages for talk in found] == [(), ()]


async def test_a_conversation_is_changed_and_removed(memory: NodeMemory) -> None:
    talk = await memory.create_conversation(DRAFT)
    changed = await memory.update_conversation(talk.id, schema.ConversationDraft("Other", "m"))
    assert (changed.title, changed.max_tokens) == ("Other", 512)
    assert await memory.conversation(talk.id) == changed
    await memory.delete_conversation(talk.id)
    assert await memory.conversations() == ()


async def test_a_turn_is_removed_with_all_later_ones(memory: NodeMemory) -> None:
    talk = await memory.create_conversation(DRAFT)
    turns = [await memory.add_message(talk.id, ANSWER) for _ in range(3)]
    await memory.delete_messages_from(talk.id, turns[1].id)
    assert (await memory.conversation(talk.id)).messages == (turns[0],)


UNKNOWN: list[Callable[[NodeMemory], Awaitable[Any]]] = [
    lambda memory: memory.conversation(9),
    lambda memory: memory.update_conversation(9, DRAFT),
    lambda memory: memory.delete_conversation(9),
    lambda memory: memory.add_message(9, ANSWER),
    lambda memory: memory.delete_messages_from(9, 1),
]


@pytest.mark.parametrize("ask", UNKNOWN)
async def test_an_unknown_conversation_is_named(
    memory: NodeMemory, ask: Callable[[NodeMemory], Awaitable[Any]]
) -> None:
    with pytest.raises(UnknownTargetError, match="9"):
        await ask(memory)


async def test_what_the_database_cannot_hold_is_bad_input_and_keeps_its_neighbours(
    memory: NodeMemory,
) -> None:
    with pytest.raises(SpecError):
        await memory.create_conversation(schema.ConversationDraft("t", "m", max_tokens=10**30))
    assert (await memory.create_conversation(DRAFT)).title == "A talk"
    assert len(await memory.conversations()) == 1


async def test_a_database_that_does_not_answer_is_said(
    memory: NodeMemory, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StorageError("the disk hangs", "see the disk")

    monkeypatch.setattr(store.read, "conversations", fail)
    with pytest.raises(StateError, match="the disk hangs"):
        await memory.conversations()


async def test_choices_are_remembered_and_forgotten(memory: NodeMemory) -> None:
    assert await memory.setting("theme") is None
    await memory.set_setting("theme", "paper")
    assert await memory.setting("theme") == "paper"
    await memory.set_setting("theme", None)
    assert await memory.setting("theme") is None
