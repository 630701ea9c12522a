"""What `cockpit chat` refuses before it asks anybody."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from cockpit.cli import cli


@pytest.mark.parametrize(("arguments", "typed"), [([], ""), ([], " \n"), ([""], ""), (["  "], "hello")])
def test_an_empty_prompt_is_bad_input_and_not_sent(arguments: list[str], typed: str) -> None:
    result = CliRunner().invoke(cli, ["chat", *arguments], input=typed)

    assert result.exit_code == 2
    assert "the prompt is empty" in result.stderr
