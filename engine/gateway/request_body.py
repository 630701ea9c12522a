"""Reading a request's body: bounded, and only as far as the gateway has to understand it."""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import ClientPayloadError, web

from engine.gateway.limits import GatewayLimits
from engine.gateway.refusal import Refusal

JSON_TYPES = frozenset({"application/json", ""})
"""A body of another type is refused although it may hold JSON: a web page can post `text/plain` to a
loopback port without the browser asking first, and could so use engines behind the operator's back."""

_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
"""Keeps the values as bytes: messages are checked for form and never built as objects."""


class RequestBody(msgspec.Struct, frozen=True):
    """A body whose model is known."""

    model: str
    raw: bytes
    """As the client sent it, decompressed."""
    fields: dict[str, msgspec.Raw]

    def for_engine(self, served_name: str) -> bytes:
        """The body to send on: untouched unless the engine has another name for the model."""
        if served_name == self.model:
            return self.raw
        return msgspec.json.encode({**self.fields, "model": served_name})


async def read_body(request: web.BaseRequest, limits: GatewayLimits) -> bytes:
    """Read the body, never holding more than the limit and one chunk.

    Raises:
        Refusal: 413 too large, 415 another type, 408 a stalled client, 400 a broken transfer.
    """
    content_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if content_type not in JSON_TYPES:
        raise Refusal(415, f"Content-Type is {content_type!r}; send application/json", close=True)
    if (request.content_length or 0) > limits.body_bytes:
        raise _too_large(limits)
    body = bytearray()
    try:
        while True:
            async with asyncio.timeout(limits.body_idle_s):
                chunk = await request.content.readany()
            if not chunk:
                return bytes(body)
            if len(body) + len(chunk) > limits.body_bytes:
                raise _too_large(limits)
            body += chunk
    except TimeoutError as error:
        raise Refusal(
            408, f"the request body stopped for {limits.body_idle_s:g} s before its end", close=True
        ) from error
    except (web.RequestPayloadError, ClientPayloadError) as error:
        raise Refusal(
            400, "the request body is broken: its transfer or content encoding is invalid", close=True
        ) from error


def parse_body(raw: bytes) -> RequestBody:
    """Find the model in a body.

    Raises:
        Refusal: 400, when it is no JSON object or names no model.
    """
    try:
        # The decoder skips over values without looking at their encoding.
        raw.decode()
        fields = _DECODER.decode(raw)
    except UnicodeDecodeError as error:
        raise Refusal(400, f"the body is not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError as error:
        raise Refusal(400, "the body is nested too deeply") from error
    except msgspec.ValidationError as error:
        raise Refusal(400, "the body must be a JSON object") from error
    except msgspec.DecodeError as error:
        raise Refusal(400, f"the body is not JSON: {error}") from error
    if "model" not in fields:
        raise Refusal(400, "the body names no `model`", param="model")
    try:
        model = msgspec.json.decode(fields["model"], type=str)
    except msgspec.DecodeError as error:
        raise Refusal(400, "`model` must be a string", param="model") from error
    return RequestBody(model=model, raw=raw, fields=fields)


def _too_large(limits: GatewayLimits) -> Refusal:
    return Refusal(
        413,
        f"the request body is over {limits.body_bytes} bytes, the gateway's limit",
        code="request_too_large",
        close=True,
    )
