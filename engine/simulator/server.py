"""The HTTP surface of a simulated engine: vLLM's routes over the paced model.

| route | |
|---|---|
| `GET /health`, `/version`, `/metrics`, `/v1/models` | as in vLLM; `/version` says `+simulated` |
| `POST /v1/chat/completions`, `/v1/completions` | streamed or not, one choice |
| `POST /v1/embeddings` | unit vectors that depend on the text alone |
| `POST /tokenize` | counts of the stand-in tokenizer |
| `GET`, `POST /sim/faults` | the present faults, as a JSON list of words; `POST` replaces them |

As in vLLM the key guards `/v1` only. `/sim/faults` is not vLLM's and is as open as the socket.
"""

from __future__ import annotations

import base64
import hmac
import struct
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from engine.errors import SpecError
from engine.model import SimulatedEngine
from engine.simulator.answers import unit_vector
from engine.simulator.faults import parse_faults
from engine.simulator.log import EngineLog
from engine.simulator.metrics import EngineMetrics
from engine.simulator.misbehaviour import Misbehaviour
from engine.simulator.pacer import Generation, Pacer
from engine.simulator.plan import Plan, plan_answer
from engine.simulator.timing import EngineModel
from engine.simulator.tokens import chat_pieces, pieces, token_ids
from engine.simulator.wire import (
    AnswerShape,
    ChatRequest,
    CompletionRequest,
    EmbeddingRequest,
    JsonObject,
    RequestProblem,
    TokenizeRequest,
    Usage,
    model_card,
)

VERSION = "0.32.0+simulated"
"""The vLLM version whose surface is imitated."""
MAX_BODY_BYTES = 64 * 2**20
EMBEDDING_DIMENSIONS = 64
_QUIET_PATHS = {"/health", "/metrics"}
"""Probes come every second and would fill the log; the cockpit silences them in real engines too."""

_Body = TypeVar("_Body", ChatRequest, CompletionRequest, EmbeddingRequest, TokenizeRequest)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class EngineServer:
    """One simulated engine's routes.

    Args:
        model: The pure model, read for metrics.
        pacer: Lets it run.
        metrics: What `/metrics` shows.
        misbehaviour: Its faults.
        log: Where access lines go.
        served_name: Model id.
        root: The model that is imitated.
        api_key: Guards `/v1`; None leaves it open.
    """

    def __init__(
        self,
        *,
        model: EngineModel,
        pacer: Pacer,
        metrics: EngineMetrics,
        misbehaviour: Misbehaviour,
        log: EngineLog,
        served_name: str,
        root: str,
        api_key: str | None,
    ) -> None:
        self._model = model
        self._timing: SimulatedEngine = model.timing
        self._pacer = pacer
        self._metrics = metrics
        self._misbehaviour = misbehaviour
        self._log = log
        self._served_name = served_name
        self._root = root
        self._api_key = api_key
        self._started_at = int(time.time())

    def application(self) -> web.Application:
        """The routes, ready for a runner with `handler_cancellation=True`."""
        application = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._surround])
        router = application.router
        router.add_get("/health", self._health, allow_head=False)
        router.add_get("/version", self._version, allow_head=False)
        router.add_get("/metrics", self._metrics_page, allow_head=False)
        router.add_get("/v1/models", self._models, allow_head=False)
        router.add_post("/v1/chat/completions", self._chat)
        router.add_post("/v1/completions", self._completion)
        router.add_post("/v1/embeddings", self._embeddings)
        router.add_post("/tokenize", self._tokenize)
        router.add_get("/sim/faults", self._faults, allow_head=False)
        router.add_post("/sim/faults", self._set_faults)
        return application

    @web.middleware
    async def _surround(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Faults, the key, error shapes and the access line."""
        await self._misbehaviour.meet(request)
        try:
            if request.path.startswith("/v1") and not self._allowed(request):
                response: web.StreamResponse = _json({"error": "Unauthorized"}, 401)
            else:
                response = await handler(request)
        except RequestProblem as problem:
            response = _json(problem.body, problem.status)
        except web.HTTPException as problem:
            response = _json({"detail": problem.reason}, problem.status)
        if request.path not in _QUIET_PATHS:
            line = f'"{request.method} {request.path} HTTP/1.1" {response.status}'
            self._log.plain(f"INFO:     {request.remote or ''} - {line}")
        return response

    def _allowed(self, request: web.Request) -> bool:
        if self._api_key is None:
            return True
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(key.encode(), self._api_key.encode())

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, request: web.Request) -> web.Response:
        return _json({"version": VERSION})

    async def _metrics_page(self, request: web.Request) -> web.Response:
        return web.Response(
            body=self._metrics.render(self._model).encode(),
            headers={"Content-Type": "text/plain; version=1.0.0; charset=utf-8"},
        )

    async def _models(self, request: web.Request) -> web.Response:
        card = model_card(self._served_name, self._root, self._timing.max_model_len, self._started_at)
        return _json({"object": "list", "data": [card]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, await _body(request, ChatRequest))

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, await _body(request, CompletionRequest))

    async def _generate(
        self, request: web.Request, body: ChatRequest | CompletionRequest
    ) -> web.StreamResponse:
        self._check_model(body.model)
        chat = isinstance(body, ChatRequest)
        suffix = request.headers.get("X-Request-Id") or uuid.uuid4().hex[:16]
        answer_id = f"{'chatcmpl' if chat else 'cmpl'}-{suffix}"
        # The client chooses its id, so it may come twice; the engine's own never does.
        plan = plan_answer(body, f"{answer_id}-{uuid.uuid4().hex[:8]}", self._timing)
        shape = AnswerShape(answer_id, int(time.time()), body.model or self._served_name, chat)
        generation = Generation(plan.request, plan.finish_reason, plan.max_tokens)
        self._pacer.submit(generation)
        try:
            if body.stream:
                with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
                return await self._stream(request, generation, plan, shape, with_usage)
            finished = await generation.complete()
            usage = Usage(finished.prompt_tokens, finished.output_tokens, finished.cached_tokens)
            return _json(shape.whole("".join(plan.pieces), plan.finish_reason, usage))
        finally:
            self._pacer.abort(plan.request.id)

    async def _stream(
        self, request: web.Request, generation: Generation, plan: Plan, shape: AnswerShape, with_usage: bool
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        sent = chunks = 0
        try:
            while sent < len(plan.pieces):
                if self._misbehaviour.breaks_stream(chunks) and request.transport is not None:
                    request.transport.abort()
                    return response
                produced = await generation.more(sent)
                opening = _event(shape.opening()) if shape.chat and sent == 0 else b""
                text = "".join(plan.pieces[sent:produced])
                sent = produced
                reason = plan.finish_reason if sent == len(plan.pieces) else None
                await response.write(opening + _event(shape.piece(text, reason)))
                chunks += 1
            if with_usage:
                finished = await generation.complete()
                usage = Usage(finished.prompt_tokens, finished.output_tokens, finished.cached_tokens)
                await response.write(_event(shape.usage(usage)))
            await response.write(b"data: [DONE]\n\n")
            await response.write_eof()
        except ConnectionError:
            # The client went away; the caller drops the sequence.
            pass
        return response

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = await _body(request, EmbeddingRequest)
        self._check_model(body.model)
        texts = [body.input] if isinstance(body.input, str) else body.input
        vectors = [unit_vector(text, body.dimensions or EMBEDDING_DIMENSIONS) for text in texts]
        tokens = sum(len(pieces(text)) for text in texts)
        return _json(
            {
                "id": f"embd-{uuid.uuid4().hex[:16]}",
                "object": "list",
                "created": int(time.time()),
                "model": body.model or self._served_name,
                "data": [
                    {
                        "index": index,
                        "object": "embedding",
                        "embedding": _encode(vector, body.encoding_format),
                    }
                    for index, vector in enumerate(vectors)
                ],
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0},
            }
        )

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await _body(request, TokenizeRequest)
        self._check_model(body.model)
        if body.messages is not None:
            cut = chat_pieces([(turn.role, turn.text) for turn in body.messages])
        else:
            cut = pieces(body.prompt or "")
        return _json(
            {
                "count": len(cut),
                "max_model_len": self._timing.max_model_len,
                "tokens": token_ids(cut),
                "token_strs": cut if body.return_token_strs else None,
            }
        )

    async def _faults(self, request: web.Request) -> web.Response:
        return _json(self._misbehaviour.faults.words())

    async def _set_faults(self, request: web.Request) -> web.Response:
        try:
            faults = parse_faults(msgspec.json.decode(await request.read(), type=list[str]))
            if faults.start_only:
                raise SpecError(
                    f"faults {', '.join(faults.start_only)} act at start only", "give them as --fault"
                )
        except (SpecError, msgspec.DecodeError) as error:
            raise RequestProblem(400, "BadRequestError", str(error)) from error
        self._misbehaviour.replace(faults)
        return _json(faults.words())

    def _check_model(self, name: str | None) -> None:
        if name and name != self._served_name:
            raise RequestProblem(
                404,
                "NotFoundError",
                f"The model `{name}` does not exist. Valid aliases: {self._served_name}.",
                "model",
            )


async def _body(request: web.Request, kind: type[_Body]) -> _Body:
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except msgspec.DecodeError as error:
        raise RequestProblem(400, "Bad Request", f"1 validation error:\n  {error}", "body") from error


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")


def _event(body: JsonObject) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def _encode(vector: list[float], encoding: str) -> list[float] | str:
    if encoding == "base64":
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    return vector
