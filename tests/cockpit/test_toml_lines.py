from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.toml_lines import line_of

TEXT = '''# comment [not] = "a table"
top = """
[not.a.table]
key = "nor a key"
"""
list = [
  "]", # ]
  { a = 1 },
]
[node]
"quoted key" = 1
a.b = 2
[[engine]]
name = 'x = 1'
[engine.simulated]
kv_blocks = 1
[[engine]]
args = { a = 1, b = [1, 2] }
simulated.kv_blocks = 2
[ storage ]
x = 1'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("list", 1, "a"), 6),
        (("node",), 10),
        (("node", "quoted key"), 11),
        (("node", "a"), 12),
        (("node", "a", "b"), 12),
        (("node", "missing"), 10),
        (("engine",), 13),
        (("engine", 0), 13),
        (("engine", 0, "name"), 14),
        (("engine", 0, "simulated"), 15),
        (("engine", 0, "simulated", "kv_blocks"), 16),
        (("engine", 1), 17),
        (("engine", 1, "args", "b"), 18),
        (("engine", 1, "simulated", "kv_blocks"), 19),
        (("storage", "x"), 21),
        (("absent",), None),
    ],
)
def test_the_line_of_a_key_or_of_what_encloses_it(path: tuple[str | int, ...], line: int | None) -> None:
    tomllib.loads(TEXT)
    assert line_of(TEXT, path) == line


VALUES = st.sampled_from(
    [
        "1",
        '"a#[{"',
        "'b]'",
        '"""\n[x]\ny = 1\n"""',
        "'''\nz = '1'\n'''",
        "[\n1, # ]\n[2],\n]",
        "{ a = '}' }",
        "[]",
    ]
)
KEYS = st.lists(st.from_regex(r"[a-z][a-z_-]{0,5}", fullmatch=True), unique=True, min_size=1, max_size=6)


@given(KEYS, st.data())
def test_values_of_any_shape_are_stepped_over(keys: list[str], data: st.DataObject) -> None:
    text, lines = "", {}
    for key in keys:
        text += data.draw(st.sampled_from(["", "\n", "# = [\n"]))
        lines[key] = text.count("\n") + 1
        text += f"{key} = {data.draw(VALUES)}\n"
    tomllib.loads(text)
    assert {key: line_of(text, (key,)) for key in keys} == lines


@given(st.text(alphabet="ab=[]{}\"'#\n .", max_size=60))
def test_text_that_is_no_toml_ends_too(text: str) -> None:
    line = line_of(text, ("a",))
    assert line is None or 1 <= line <= text.count("\n") + 1
