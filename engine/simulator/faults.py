"""The faults that a simulated engine can be given, as words.

| word | effect |
|---|---|
| `ignore-sigterm` | SIGTERM is logged and ignored |
| `slow-start=S` | ready S seconds later than its timing says; at start only |
| `oom-at-start` | logs CUDA out of memory while loading and exits with 1; at start only |
| `bad-argument` | refuses its command line and exits with 2; at start only |
| `crash-after=N` | answers N more requests, then dies at the next with a traceback and status 1 |
| `hang-after=N` | answers N more requests, then accepts connections and answers nothing, `/health` included |
| `break-stream-after=N` | drops the connection of every stream once N of its chunks went out |
| `reset-idle` | once: closes a kept-alive connection at the next request on it, without an answer |
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.errors import SpecError


class Faults(msgspec.Struct, frozen=True):
    """A set of faults; what is None or False is not wanted."""

    ignore_sigterm: bool = False
    slow_start: float | None = None
    oom_at_start: bool = False
    bad_argument: bool = False
    crash_after: int | None = None
    hang_after: int | None = None
    break_stream_after: int | None = None
    reset_idle: bool = False

    @property
    def start_only(self) -> list[str]:
        """Words that mean nothing once the engine runs."""
        return [word for word in self.words() if word.partition("=")[0] in _START_ONLY]

    def words(self) -> list[str]:
        """The same set as words."""
        listed: list[str] = []
        for word, field in _FIELDS.items():
            value = getattr(self, field)
            if value is True:
                listed.append(word)
            elif value is not None and value is not False:
                listed.append(f"{word}={value:g}")
        return listed


_FIELDS = {field.replace("_", "-"): field for field in Faults.__struct_fields__}
_FLAGS = {word for word, field in _FIELDS.items() if Faults.__annotations__[field] == "bool"}
_START_ONLY = {"slow-start", "oom-at-start", "bad-argument"}


def parse_faults(words: Sequence[str]) -> Faults:
    """Read fault words; a word given twice counts as its last.

    Raises:
        SpecError: a word that is no fault, a number that is missing or wrong.
    """
    chosen: dict[str, bool | int | float] = {}
    for word in words:
        name, equals, number = word.partition("=")
        if name not in _FIELDS:
            raise SpecError(f"unknown fault {word!r}", f"known: {', '.join(_FIELDS)}")
        if name in _FLAGS:
            if equals:
                raise SpecError(f"fault {name!r} takes no number, got {number!r}")
            chosen[_FIELDS[name]] = True
        else:
            chosen[_FIELDS[name]] = _number(name, number)
    return msgspec.convert(chosen, Faults)


def _number(name: str, text: str) -> int | float:
    hint = f"write {name}=3"
    try:
        value = float(text) if name == "slow-start" else int(text)
    except ValueError as error:
        raise SpecError(f"fault {name!r} needs a number, got {text!r}", hint) from error
    if not 0 <= value < 1e9:
        raise SpecError(f"fault {name!r} needs a number that is not negative, got {text!r}", hint)
    return value
