"""The command palette: every action, engine and theme by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from cockpit.actions import Scope, in_scope
from cockpit.consequences import Verb, why_not

if TYPE_CHECKING:
    from cockpit.app import CockpitApp

VERBS: tuple[Verb, ...] = ("start", "stop", "restart")


class Command(NamedTuple):
    """One line of the palette."""

    name: str
    run: Callable[[], object]
    help: str


class CockpitCommands(Provider):
    """Actions of the registry, what can be done with each engine now, and the themes."""

    async def discover(self) -> Hits:
        for command in self._commands():
            yield DiscoveryHit(command.name, command.run, command.name, command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in self._commands():
            score = matcher.match(command.name)
            if score > 0:
                yield Hit(score, matcher.highlight(command.name), command.run, command.name, command.help)

    @property
    def _cockpit(self) -> CockpitApp:
        return cast("CockpitApp", self.app)

    def _commands(self) -> Iterator[Command]:
        yield from self._places()
        yield from self._engines()
        yield from self._themes()
        yield from self._actions()

    def _places(self) -> Iterator[Command]:
        app = self._cockpit
        yield Command("Fleet", app.action_show_fleet, "GPUs and the engine on each")
        yield Command("Chat", partial(app.show_chat, None), "Ask a model")
        yield Command("Logs", partial(app.show_logs, None), "Read an engine's log")
        yield Command("Launch a model", app.show_launch, "The form for a new deployment")

    def _engines(self) -> Iterator[Command]:
        app = self._cockpit
        for engine in () if app.frame is None else app.frame.engines:
            name, about = engine.name, f"{engine.model}, {engine.state}"
            yield Command(f"{name} logs", partial(app.show_logs, name), about)
            yield Command(f"{name} chat", partial(app.show_chat, name), about)
            for verb in VERBS:
                if why_not(verb, engine) is None:
                    yield Command(f"{name} {verb}", partial(app.order, verb, engine), about)

    def _themes(self) -> Iterator[Command]:
        app = self._cockpit
        for name, title in app.themes.titles.items():
            yield Command(f"Theme {name}", partial(app.choose_theme, name), title)

    def _actions(self) -> Iterator[Command]:
        """Those that need no selected row."""
        for action in in_scope(Scope.APP):
            if action.palette:
                run = partial(self.app.run_action, action.method)
                yield Command(action.label, run, f"{action.tooltip} [{action.shown_key}]")
