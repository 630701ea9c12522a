from __future__ import annotations

import argparse
import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backends.argv import RESERVED, flags, normalise
from engine.errors import SpecError
from engine.model import ArgValue

WHERE = "engine qwen"


@pytest.mark.parametrize("key", RESERVED)
def test_what_the_cockpit_sets_is_refused_and_named(key: str) -> None:
    with pytest.raises(SpecError) as caught:
        normalise({key: "x"}, WHERE)
    assert caught.value.message == f"{WHERE}.args.{key} is set by the cockpit: {RESERVED[key]}"
    assert caught.value.hint == f"remove `{key}` from args"


@pytest.mark.parametrize(
    "key",
    [
        "served_model_name",
        "--uds",
        "api_k",  # argparse takes abbreviations
        "served",
        "mod",
        "no-disable-log-stats",
        "disable_log",
        "model.name",  # vLLM turns it into --model '{"name": …}'
        "api-key.x",
    ],
)
def test_no_spelling_of_a_reserved_argument_gets_through(key: str) -> None:
    with pytest.raises(SpecError, match="is set by the cockpit"):
        normalise({key: "x"}, WHERE)


@given(st.sampled_from(sorted(RESERVED)), st.data())
def test_no_abbreviation_gets_through(reserved: str, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, len(reserved)))
    abbreviation = reserved[:length]
    spelled = data.draw(st.sampled_from([abbreviation, abbreviation.replace("-", "_"), f"--{abbreviation}"]))
    with pytest.raises(SpecError):
        normalise({spelled: True}, WHERE)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "--",
        "_",
        "uds=/tmp/x",
        "max-model-len=5 --uds",
        "a b",
        "1",
        "ü",
        "a\0b",
        "a.",
        ".a",
        "max-model-len\n",
    ],
)
def test_what_is_no_name_is_refused(key: str) -> None:
    with pytest.raises(SpecError, match=r"is no argument's name|is set by the cockpit"):
        normalise({key: "x"}, WHERE)


@pytest.mark.parametrize(
    "key",
    [
        "model-impl",
        "max-model-len",
        "port-of-call",
        "disable-log-stats-too",
        "hf-overrides.model",
        "config-format",
        "data-parallel-size",
        "enable-prefix-caching",
        "tensor-parallel-size",
    ],
)
def test_arguments_that_only_resemble_reserved_ones_pass(key: str) -> None:
    assert normalise({key: 1}, WHERE) == {key: 1}


def test_underscores_become_dashes_except_within_json() -> None:
    assert normalise({"max_model_len": 1, "--hf_overrides.rope_theta": 2}, WHERE) == {
        "max-model-len": 1,
        "hf-overrides.rope_theta": 2,
    }


def test_one_argument_in_two_spellings_is_refused() -> None:
    with pytest.raises(SpecError, match=r"args has max-model-len twice"):
        normalise({"max-model-len": 1, "max_model_len": 2}, WHERE)


def test_a_list_that_argparse_would_misread_is_refused() -> None:
    with pytest.raises(SpecError, match=r"args\.lora-modules has a word that begins with a dash"):
        normalise({"lora-modules": ["a=b", "--uds=/tmp/x"]}, WHERE)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, ["--x"]),
        (False, ["--no-x"]),
        (3, ["--x=3"]),
        (1, ["--x=1"]),
        (0, ["--x=0"]),
        (0.9, ["--x=0.9"]),
        (-1, ["--x=-1"]),
        ("-dash", ["--x=-dash"]),
        ("a b=c", ["--x=a b=c"]),
        ("", ["--x="]),
        (["a=b", 2], ["--x", "a=b", "2"]),
        ({"a": 1, "b": "c"}, ["--x", '{"a":1,"b":"c"}']),
    ],
)
def test_a_value_as_words(value: ArgValue, words: list[str]) -> None:
    assert flags({"x": value}) == words


@pytest.mark.parametrize(
    ("value", "word"),
    [(True, "--a.b=true"), (False, "--a.b=false"), ([1, 2], "--a.b=[1,2]"), ("s", "--a.b=s")],
)
def test_a_key_within_json_has_its_value_in_one_word(value: ArgValue, word: str) -> None:
    """`--a.b` alone would swallow the argument after it (`vllm/utils/argparse_utils.py`)."""
    assert flags({"a.b": value}) == [word]


# Words of a list may not begin with a dash; everything else may be anything that TOML can hold.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
WORD = TEXT.filter(lambda text: not text.startswith("-"))
NUMBER = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
SCALAR = st.booleans() | NUMBER | TEXT
VALUE: st.SearchStrategy[ArgValue] = st.one_of(
    SCALAR, st.lists(WORD, min_size=1, max_size=4), st.dictionaries(TEXT, SCALAR, max_size=4)
)
NAMES = [f"x-{letter}-y" for letter in string.ascii_lowercase[:8]]


@given(st.dictionaries(st.sampled_from(NAMES), VALUE, max_size=8))
def test_what_the_engine_parses_back_is_what_the_table_said(args: dict[str, ArgValue]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    for name, value in args.items():
        match value:
            case bool():
                parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction)
            case list():
                parser.add_argument(f"--{name}", nargs="+")
            case dict():
                parser.add_argument(f"--{name}", type=json.loads)
            case _:
                parser.add_argument(f"--{name}", type=type(value))
    parsed = vars(parser.parse_args(["acme/tiny", *flags(normalise(args, WHERE))]))
    del parsed["model"]
    assert parsed == {name.replace("-", "_"): value for name, value in args.items()}
