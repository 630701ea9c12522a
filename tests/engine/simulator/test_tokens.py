from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.simulator.answers import answer_pieces, natural_length, unit_vector
from engine.simulator.tokens import VOCABULARY, chat_pieces, pieces, token_ids


@given(st.text())
def test_pieces_joined_are_the_text(text: str) -> None:
    cut = pieces(text)
    assert "".join(cut) == text
    assert all(0 <= number < VOCABULARY for number in token_ids(cut))


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=30)), max_size=5), st.text()
)
def test_the_next_turns_prompt_starts_with_this_turn_and_its_answer(
    turns: list[tuple[str, str]], answer: str
) -> None:
    before = chat_pieces(turns)
    after = chat_pieces([*turns, ("assistant", answer), ("user", "And then?")])
    assert after[: len(before)] == before
    assert after[len(before) : len(before) + len(pieces(answer))] == pieces(answer)


@given(st.lists(st.integers(0, VOCABULARY), min_size=1), st.integers(1, 400))
def test_an_answer_has_the_length_asked_for_and_depends_on_the_prompt_alone(
    prompt: list[int], length: int
) -> None:
    answer = answer_pieces(prompt, "about scheduling", length)
    assert len(answer) == length
    assert answer == answer_pieces(prompt, "about scheduling", length)
    assert 16 <= natural_length(prompt) <= 1_200


def test_answers_say_that_they_are_simulated_and_differ() -> None:
    answers = {"".join(answer_pieces([number], "routing", 60)) for number in range(30)}
    assert len(answers) > 20
    assert all("simulated" in answer.lower() for answer in answers)
    assert any("routing" in answer for answer in answers)


def test_vectors_have_length_one_and_depend_on_the_text() -> None:
    vector = unit_vector("gpu", 16)
    assert abs(sum(value * value for value in vector) - 1.0) < 1e-9
    assert vector == unit_vector("gpu", 16)
    assert vector != unit_vector("cpu", 16)
