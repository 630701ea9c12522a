"""What the API answers: JSON with the version in a header, and every failure as `ApiError`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from engine.api import schema
from engine.errors import EngineError, StateError, UnknownTargetError

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
VERSION = {schema.VERSION_HEADER: str(schema.API_VERSION)}


def json_answer(value: msgspec.Struct, status: int = 200) -> web.Response:
    """A whole answer."""
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json", headers=VERSION
    )


def _refusal(status: int, message: str, hint: str, kind: str) -> web.Response:
    return json_answer(schema.ApiError(schema.ErrorBody(message=message, hint=hint, kind=kind)), status)


@web.middleware
async def errors_told(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure as `ApiError`; no traceback leaves the node."""
    if request.path.startswith("/openai/"):
        return await handler(request)  # the gateway has OpenAI's shape of errors
    try:
        return await handler(request)
    except UnknownTargetError as error:
        return _refusal(404, error.message, error.hint, "unknown")
    except StateError as error:
        return _refusal(409, error.message, error.hint, "state")
    except EngineError as error:
        return _refusal(400, error.message, error.hint, "bad_input")
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        return _refusal(405, f"{request.path} does not take {request.method}", f"it takes {allowed}", "http")
    except web.HTTPNotFound:
        return _refusal(404, f"there is no {request.path}", "engine/api/schema.py has the routes", "http")
    except web.HTTPException as error:
        return _refusal(error.status, f"{request.method} {request.path}: {error.reason}", "", "http")
    except ConnectionResetError:
        raise
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return _refusal(500, "the node failed on this request", "its log has the details", "fault")
