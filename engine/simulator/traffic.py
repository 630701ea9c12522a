"""Whom the gentle load pretends to be: a pure generator of chat requests.

Arrivals are Poisson with a rate that swings by `SWING` around its mean over `PERIOD_S`, drawn by
thinning. A request either opens a session or is the next turn of one that waits for it, so that later
turns share their prefix with earlier ones, and sessions of one kind share their system prompt. Lengths
are log-normal. Equal seeds give equal traffic as long as the answers are equal.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import msgspec

SWING = 0.6
"""The rate moves between 0.4 and 1.6 times its mean."""
PERIOD_S = 240.0
"""Slow enough to be seen as a wave in a chart of minutes."""
MAX_SESSIONS = 24
"""Open sessions; their histories are what the load holds in memory."""
MAX_TURNS = 6
CONTINUE_SHARE = 0.65
"""How often a request goes on with a session, if one waits."""

_VOCABULARY = (
    "kernel memory bandwidth latency throughput cluster batch scheduler attention cache prefix token model "
    "gradient checkpoint dataset experiment baseline measure compare explain summarise table figure result "
    "method paper review draft question answer node driver thermal power limit link topology expert router "
    "adapter session request queue window budget error retry timeout trace sample metric percentile"
)
_WORDS = _VOCABULARY.split()
_ROLES = ("a patient tutor", "a code reviewer", "an editor of papers", "an analyst of logs")
# Words of a question: median 45; of a pasted document, which opens one session in five: median 900.
_QUESTION = (math.log(45), 0.7, 400)
_DOCUMENT = (math.log(900), 0.6, 4_000)
_DOCUMENT_SHARE = 0.2
# Tokens that are asked for: median 70.
_ANSWER = (math.log(70), 0.6, 320)
_SYSTEM_WORDS = 120


class Arrival(msgspec.Struct, frozen=True):
    """One request."""

    at_s: float
    """When it is due, on the clock that the generator was started with."""
    session: int
    messages: tuple[tuple[str, str], ...]
    """(role, text), oldest first."""
    max_tokens: int


@dataclass(slots=True)
class _Session:
    messages: list[tuple[str, str]]
    turns: int = 0


@dataclass(slots=True)
class _Book:
    """Open sessions by number: those that wait for a next turn, and those that wait for an answer."""

    idle: dict[int, _Session] = field(default_factory=dict)
    asking: dict[int, _Session] = field(default_factory=dict)
    opened: int = 0


class Traffic:
    """The requests of one deployment.

    Args:
        rate_per_s: Mean arrivals per second.
        seed: Chooses everything that is drawn.
        start_s: Reading of the clock from which arrivals count.
    """

    def __init__(self, rate_per_s: float, seed: int, start_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._random = random.Random(seed)
        self._phase = self._random.uniform(0.0, 2.0 * math.pi)
        self._at_s = start_s
        self._book = _Book()
        self._systems = [
            f"You are {role} in a lab that shares one GPU machine. {self._text(_SYSTEM_WORDS)}"
            for role in _ROLES
        ]

    def rate_at(self, at_s: float) -> float:
        """Arrivals per second at a time."""
        return self._rate_per_s * (1.0 + SWING * math.sin(2.0 * math.pi * at_s / PERIOD_S + self._phase))

    def next(self) -> Arrival:
        """The request after the last one."""
        peak = self._rate_per_s * (1.0 + SWING)
        while True:
            self._at_s += self._random.expovariate(peak)
            if self._random.random() * peak <= self.rate_at(self._at_s):
                break
        number, session = self._pick_session()
        session.messages.append(("user", self._question(session)))
        session.turns += 1
        self._book.asking[number] = session
        return Arrival(
            at_s=self._at_s,
            session=number,
            messages=tuple(session.messages),
            max_tokens=max(8, self._draw(_ANSWER)),
        )

    def answered(self, session: int, text: str) -> None:
        """The answer is there; the session can go on unless it has had its turns."""
        asked = self._book.asking.pop(session)
        asked.messages.append(("assistant", text))
        if asked.turns < MAX_TURNS:
            self._book.idle[session] = asked
            if len(self._book.idle) > MAX_SESSIONS:
                self._book.idle.pop(next(iter(self._book.idle)))

    def failed(self, session: int) -> None:
        """No answer came; the session is given up."""
        self._book.asking.pop(session)

    @property
    def sessions(self) -> int:
        """Open sessions."""
        return len(self._book.idle) + len(self._book.asking)

    def _pick_session(self) -> tuple[int, _Session]:
        idle = self._book.idle
        if idle and self._random.random() < CONTINUE_SHARE:
            number = self._random.choice(list(idle))
            return number, idle.pop(number)
        self._book.opened += 1
        return self._book.opened, _Session([("system", self._random.choice(self._systems))])

    def _question(self, session: _Session) -> str:
        if session.turns == 0 and self._random.random() < _DOCUMENT_SHARE:
            return f"Summarise this document. {self._text(self._draw(_DOCUMENT))}"
        return f"{self._text(self._draw(_QUESTION))}?"

    def _draw(self, shape: tuple[float, float, int]) -> int:
        mu, sigma, most = shape
        return min(most, max(1, round(self._random.lognormvariate(mu, sigma))))

    def _text(self, words: int) -> str:
        return " ".join(self._random.choices(_WORDS, k=words))
