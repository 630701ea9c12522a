"""Errors as OpenAI's clients expect them: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from aiohttp import web

from engine.routing.least_in_flight import NoneReady, UnknownModel, UnknownPin

SHOWN_CHARS = 200
"""How much of a client's own text a message repeats."""


class Refusal(Exception):
    """Ends a request before its answer began, with a status and a sentence for the client."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.headers = dict(headers or {})
        self.close = close
        """True where the rest of the request cannot be read any more."""

    def body(self) -> bytes:
        """The JSON document."""
        kind = "server_error" if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
        return msgspec.json.encode(
            {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}
        )

    def event(self) -> bytes:
        """The same as a server-sent event, for a stream that already began."""
        return b"data: " + self.body() + b"\n\n"

    def response(self) -> web.Response:
        """The answer."""
        response = web.Response(
            status=self.status, body=self.body(), headers=self.headers, content_type="application/json"
        )
        if self.close:
            response.force_close()
        return response


def json_response(document: object, status: int = 200) -> web.Response:
    """An answer of the gateway itself."""
    return web.Response(status=status, body=msgspec.json.encode(document), content_type="application/json")


def refused(decision: UnknownModel | UnknownPin | NoneReady) -> Refusal:
    """The answer to a request that no engine can have; what would have been possible is named."""
    match decision:
        case UnknownModel(model=model, known=known):
            listed = ", ".join(known) or "none, no engine is configured"
            return Refusal(
                404,
                f"model {model[:SHOWN_CHARS]!r} does not exist; known models: {listed}",
                code="model_not_found",
                param="model",
            )
        case UnknownPin(pinned=pinned, model=model, known=known):
            return Refusal(
                404,
                f"model {model!r} has no engine {pinned[:SHOWN_CHARS]!r}; it has: {', '.join(known)}",
                code="engine_not_found",
            )
        case NoneReady(model=model, states=states, retry_after_s=retry_after_s):
            listed = ", ".join(f"{name} is {state}" for name, state in states)
            return Refusal(
                503,
                f"no engine of model {model!r} is ready: {listed}",
                code="no_engine_ready",
                headers={"Retry-After": str(retry_after_s)},
            )
