"""A conversation in memory, and the requests that follow from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.chat_answer import Answer
from cockpit.chat_session import (
    ChatParameters,
    ChatSession,
    Turn,
    message_draft,
    parse_max_tokens,
    parse_temperature,
    title_of,
)
from engine.api import schema


def roles(session: ChatSession) -> list[str]:
    return [message["role"] for message in session.request_messages()]


def test_request_begins_with_the_system_prompt_unless_it_is_blank() -> None:
    session = ChatSession(ChatParameters(model="qwen", system_prompt="Be brief."))
    session.ask("hi")
    assert session.request_messages() == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]

    session.parameters = ChatParameters(model="qwen", system_prompt="  \n")
    assert roles(session) == ["user"]


def test_failed_exchange_is_left_out_of_later_requests() -> None:
    session = ChatSession()
    session.ask("one")
    session.finish(Answer(error="no replica is ready"))
    session.ask("two")

    assert [message["content"] for message in session.request_messages()] == ["two"]


def test_partial_answer_stays_part_of_the_conversation() -> None:
    session = ChatSession()
    session.ask("one")
    session.finish(Answer(text="half", error="the engine broke"))
    session.ask("two")

    assert [message["content"] for message in session.request_messages()] == ["one", "half", "two"]


def test_retracting_an_answer_leaves_its_question_open() -> None:
    session = ChatSession()
    session.ask("one")
    session.finish(Answer(text="bad"))

    retracted = session.retract_answer()

    assert retracted is not None
    assert retracted.content == "bad"
    assert session.awaits_answer
    assert roles(session) == ["user"]
    assert session.retract_answer() is None


def test_first_question_names_the_conversation() -> None:
    session = ChatSession(ChatParameters(model="qwen/0", temperature=0.2, max_tokens=9))
    session.ask("\n  Explain   paged attention\nin two sentences.")
    session.finish(Answer(text="It pages."))
    session.ask("and now?")

    assert session.draft() == schema.ConversationDraft(
        title="Explain paged attention", model="qwen/0", system_prompt="", temperature=0.2, max_tokens=9
    )


def test_reopened_conversation_goes_on_where_it_was() -> None:
    saved = schema.Conversation(
        id=7,
        title="t",
        model="qwen",
        system_prompt="s",
        temperature=1.0,
        max_tokens=64,
        created_at_s=1.0,
        updated_at_s=2.0,
        messages=(
            schema.Message(id=1, role="user", content="q", at_s=1.0),
            schema.Message(
                id=2, role="assistant", content="a", at_s=2.0, served_by="qwen/0", ttft_s=0.1, error="broke"
            ),
        ),
    )

    session = ChatSession.reopened(saved)

    assert session.conversation_id == 7
    assert session.saved_parameters == session.parameters == ChatParameters("qwen", "s", 1.0, 64)
    assert [turn.message_id for turn in session.turns] == [1, 2]
    answer = session.turns[1].answer
    assert answer is not None
    assert (answer.served_by, answer.ttft_s, answer.error) == ("qwen/0", 0.1, "broke")


def test_stored_turn_carries_the_id_of_its_message() -> None:
    session = ChatSession()
    question = session.ask("same")
    session.finish(Answer(text="a"))
    second = session.ask("same")

    session.stored(second, 12)
    session.stored(question, 10)

    assert [turn.message_id for turn in session.turns] == [10, None, 12]


def test_draft_of_an_answer_has_its_figures() -> None:
    answer = Answer(text="a", served_by="qwen/1", ttft_s=0.1, tokens_per_s=50.0, completion_tokens=3)

    draft = message_draft(Turn("assistant", "a", answer))

    assert draft == schema.MessageDraft(
        role="assistant",
        content="a",
        served_by="qwen/1",
        ttft_s=0.1,
        tokens_per_s=50.0,
        completion_tokens=3,
    )


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12))
def test_request_alternates_roles_and_ends_with_the_question(exchanges: list[tuple[bool, bool]]) -> None:
    """Whatever failed before: each exchange is (answered at all, with text)."""
    session = ChatSession()
    for answered, with_text in exchanges:
        session.ask("q")
        if answered:
            session.finish(Answer(text="a" if with_text else "", error=None if with_text else "broke"))
    session.ask("last")

    messages = session.request_messages()

    assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2) + [
        "user"
    ]
    assert messages[-1]["content"] == "last"


@given(st.text(max_size=300))
def test_title_is_one_short_line(text: str) -> None:
    title = title_of(text)

    assert len(title) <= 60
    assert "\n" not in title


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("0.7", 0.7), (" 2 ", 2.0)])
def test_temperature_is_read(text: str, value: float) -> None:
    assert parse_temperature(text) == value


@pytest.mark.parametrize("text", ["", "warm", "-0.1", "2.1", "nan", "inf"])
def test_wrong_temperature_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="0 to 2"):
        parse_temperature(text)


@pytest.mark.parametrize("text", ["", "0", "-5", "1.5", "lots", "²", "9" * 10])
def test_wrong_max_tokens_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="from 1"):
        parse_max_tokens(text)


def test_max_tokens_is_read() -> None:
    assert parse_max_tokens(" 512 ") == 512
