"""The registry of keys."""

from __future__ import annotations

from cockpit.actions import key_beside_text


def test_where_text_is_typed_the_footer_names_a_key_that_is_no_text() -> None:
    assert key_beside_text("app.help") == "f1"
    assert key_beside_text("app.palette") == "^p"
    assert key_beside_text("app.quit") == "^q"


def test_actions_of_one_key_and_keys_of_others_are_written_as_always() -> None:
    assert key_beside_text("view.theme") is None
    assert key_beside_text("chat.send") is None
    assert key_beside_text(None) is None
