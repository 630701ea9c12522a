from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from engine.telemetry.derive import WANTED
from engine.telemetry.exposition import ExpositionError, Sample, parse

DATA = Path(__file__).parent / "data"

Line = tuple[str, list[tuple[str, str]], float]

names = st.sampled_from(["vllm:wanted", "vllm:wanted_total", "vllm:other", "wanted"])
values = st.one_of(st.floats(), st.integers(-(10**6), 10**6).map(float))
labels = st.lists(
    st.tuples(
        st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True).filter(lambda name: name != "__name__"),
        st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from('\\"n{},=#\n \t')), max_size=12),
    ),
    max_size=4,
    unique_by=lambda label: label[0],
)
blank = st.sampled_from(["", " ", "\t", "  "])


def number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)


@st.composite
def pages(draw: st.DrawFn) -> str:
    lines: list[str] = []
    for name, pairs, value in draw(st.lists(st.tuples(names, labels, values), max_size=8)):
        escaped = [
            (key, text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")) for key, text in pairs
        ]
        gap = draw(blank)
        inner = f"{gap},{gap}".join(f'{key}{gap}={gap}"{text}"' for key, text in escaped)
        trailing = draw(st.sampled_from(["", ","])) if escaped else ""
        block = (
            f"{draw(blank)}{{{gap}{inner}{trailing}{gap}}}" if bool(escaped) or draw(st.booleans()) else ""
        )
        stamp = draw(st.sampled_from(["", " 1395066363000"]))
        lines.append(f"{draw(blank)}{name}{block} {draw(blank).strip()}{number(value)}{stamp}{draw(blank)}")
        lines.append(draw(st.sampled_from(["", "# a comment {", "# EOF", "   "])))
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


def comparable(samples: list[Sample]) -> list[tuple[str, dict[str, str], str]]:
    return [(sample.name, sample.labels, repr(float(sample.value))) for sample in samples]


def oracle(text: str, wanted: frozenset[str]) -> list[Sample]:
    return [
        Sample(sample.name, dict(sample.labels), float(sample.value))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in wanted
    ]


@given(pages())
def test_reads_what_prometheus_client_reads(text: str) -> None:
    wanted = frozenset({"vllm:wanted", "vllm:wanted_total"})
    assert comparable(parse(text, wanted)) == comparable(oracle(text, wanted))


@pytest.mark.parametrize("page", ["vllm_0_32.prom", "vllm_0_32_later.prom"])
def test_reads_a_real_page_as_prometheus_client_does(page: str) -> None:
    text = (DATA / page).read_text()
    samples = parse(text, WANTED)
    assert comparable(samples) == comparable(oracle(text, WANTED))
    assert {sample.name for sample in samples} == WANTED


@given(st.text())
def test_any_text_gives_samples_or_the_one_error(text: str) -> None:
    try:
        parse("a" + text, frozenset({"a"}))
    except ExpositionError as error:
        assert str(error).startswith("line ")


def test_exemplars_and_timestamps_are_passed_over() -> None:
    text = 'a_bucket{le="1"} 3 # {trace_id="x"} 0.7 1\na 4 # {trace_id="x"} 0.7\na\t5 1395066363000\n'
    assert parse(text, {"a", "a_bucket"}) == [
        Sample("a_bucket", {"le": "1"}, 3.0),
        Sample("a", {}, 4.0),
        Sample("a", {}, 5.0),
    ]


def test_a_longer_name_is_another_name() -> None:
    assert parse("ab 1\na_total 2\na 3", {"a"}) == [Sample("a", {}, 3.0)]


@pytest.mark.parametrize(
    "line",
    ["a", "a ", 'a{b="c" 1', 'a{b="c"', "a{b=c} 1", "a{} one", "a 1_0", "a 1.2.3", 'a{b="c\\"} 1', "a 0x1p3"],
)
def test_a_wanted_line_that_is_broken_names_itself(line: str) -> None:
    with pytest.raises(ExpositionError, match=r"^line 2 \(a\)"):
        parse(f"other{{broken 1\n{line}\n", {"a"})
