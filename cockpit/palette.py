"""The command palette: every action, engine and theme by name."""

from __future__ import annotations

from textual.command import Hits, Provider


class CockpitCommands(Provider):
    """Actions of the registry, what can be done with each engine, and the themes."""

    async def search(self, query: str) -> Hits:
        return
        yield
