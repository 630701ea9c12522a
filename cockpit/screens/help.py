"""Help: the keys of this screen and of all."""

from __future__ import annotations

from textual.screen import ModalScreen, Screen


class HelpScreen(ModalScreen[None]):
    """Shows the registry and the keys of the screen it was called from."""

    def __init__(self, below: Screen[object]) -> None:
        super().__init__()
        self._below = below
