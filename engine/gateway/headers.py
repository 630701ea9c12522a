"""Which headers travel between client and engine."""

from __future__ import annotations

import re
import uuid

from multidict import CIMultiDict, CIMultiDictProxy

from engine.api.schema import PIN_HEADER, REPLICA_HEADER

REQUEST_ID_HEADER = "X-Request-Id"

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""RFC 9110 section 7.6.1: they speak of one connection."""

NOT_FORWARDED = HOP_BY_HOP | {
    "accept-encoding",
    "authorization",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    PIN_HEADER.lower(),
    REQUEST_ID_HEADER.lower(),
}
"""Of a request: what the gateway answers for itself, or sets anew because the body may have changed."""

NOT_RETURNED = HOP_BY_HOP | {"content-length", "date", REQUEST_ID_HEADER.lower(), REPLICA_HEADER.lower()}
"""Of an answer."""

PLAUSIBLE_ID = re.compile(r"[\x21-\x7e]{1,128}")
"""vLLM makes the id part of its own ids and logs; longer or stranger ones are replaced."""


def request_id(headers: CIMultiDictProxy[str]) -> str:
    """The client's request id, or a new one where it has none that can be passed on."""
    given = headers.get(REQUEST_ID_HEADER, "")
    return given if PLAUSIBLE_ID.fullmatch(given) else uuid.uuid4().hex


def to_engine(headers: CIMultiDictProxy[str], *, api_key: str, request_id: str) -> CIMultiDict[str]:
    """Headers of the request to the engine.

    Compression is declined: the answer is forwarded as bytes, and an error event could not be put at
    the end of a compressed stream.
    """
    dropped = NOT_FORWARDED | _named_by_connection(headers)
    forwarded = CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in dropped)
    forwarded["Authorization"] = f"Bearer {api_key}"
    forwarded["Content-Type"] = "application/json"
    forwarded["Accept-Encoding"] = "identity"
    forwarded[REQUEST_ID_HEADER] = request_id
    return forwarded


def to_client(headers: CIMultiDictProxy[str], *, served_by: str) -> CIMultiDict[str]:
    """Headers of the answer to the client."""
    dropped = NOT_RETURNED | _named_by_connection(headers)
    returned = CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in dropped)
    returned[REPLICA_HEADER] = served_by
    return returned


def _named_by_connection(headers: CIMultiDictProxy[str]) -> frozenset[str]:
    return frozenset(
        name.strip().lower() for value in headers.getall("Connection", ()) for name in value.split(",")
    )
