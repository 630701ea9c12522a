"""The NDJSON stream as the server sends it."""

from __future__ import annotations

import json

import aiohttp
import pytest

from engine.api import schema
from tests.engine.api.support import NODE, event, frame, serve
from tests.support.wait_until import wait_until


async def test_a_line_of_the_stream_is_one_json_object_with_its_type() -> None:
    async with serve() as node:
        for line in (
            schema.HelloLine(1, NODE),
            schema.FrameLine(frame(1.0)),
            schema.EventLine(event(1)),
            schema.StoppingLine(by="me"),
            None,
        ):
            node.control.lines.put_nowait(line)
        async with node.session.get("http://node/v1/stream?after_event=41") as response:
            assert response.content_type == "application/x-ndjson"
            assert response.headers[schema.VERSION_HEADER] == str(schema.API_VERSION)
            types = [json.loads(line)["type"] async for line in response.content]
        assert types == ["hello", "frame", "event", "stopping"]
        assert node.control.asked == [41]


async def test_a_reader_that_goes_away_ends_its_stream() -> None:
    async with serve() as node:
        node.control.lines.put_nowait(schema.HelloLine(1, NODE))
        response = await node.session.get("http://node/v1/stream")
        await response.content.readline()
        assert node.control.streams_open == 1
        response.close()
        await wait_until(lambda: node.control.streams_open == 0)


async def test_a_stream_that_fails_is_cut_and_not_ended_as_if_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve() as node:
        node.control.lines.put_nowait(schema.HelloLine(1, NODE))
        node.control.lines.put_nowait(RuntimeError("broken inside"))
        with pytest.raises(aiohttp.ClientError):
            async with node.session.get("http://node/v1/stream") as response:
                await response.read()
        assert "broken inside" in caplog.text
        assert node.control.streams_open == 0
        assert (await node.ask("GET", "/v1/status"))[0] == 200


async def test_closing_ends_streams_that_never_end() -> None:
    async with serve() as node:
        node.control.lines.put_nowait(schema.HelloLine(1, NODE))
        async with node.session.get("http://node/v1/stream") as response:
            await response.content.readline()
            await node.server.close()
            assert node.control.streams_open == 0
