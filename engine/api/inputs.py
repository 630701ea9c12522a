"""What a request says, or a refusal that names the part that is wrong."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from aiohttp import web

from engine.errors import SpecError

T = TypeVar("T")

MAX_LIMIT = 10_000
MAX_NUMBER = 2**63 - 1
"""SQLite's largest integer; nothing that the API counts comes near it."""


def path_id(request: web.Request, key: str = "id") -> int:
    """A number in the path."""
    return _whole_number(request.match_info[key], f"the {key} in {request.path}", "list them first")


def number(request: web.Request, key: str, default: int | None) -> int | None:
    """A whole number of the query."""
    raw = request.query.get(key)
    return default if raw is None else _whole_number(raw, f"?{key}={raw[:40]}", f"write ?{key}=1")


def _whole_number(raw: str, what: str, hint: str) -> int:
    try:
        number = int(raw)
    except ValueError as error:
        raise SpecError(f"{what} is no whole number", hint) from error
    if abs(number) > MAX_NUMBER:
        raise SpecError(f"{what} is too large a number", hint)
    return number


def limit_of(request: web.Request, default: int, most: int = MAX_LIMIT) -> int:
    """The query's `limit`, brought between 1 and `most`."""
    asked = number(request, "limit", default)
    return default if asked is None else max(1, min(asked, most))


async def body_of(request: web.Request, kind: type[T]) -> T:
    """The body as one of the wire's types."""
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SpecError(
            f"the body of {request.method} {request.path} is wrong: {error}", "see docs/api.schema.json"
        ) from error
