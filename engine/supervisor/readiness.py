"""Whether a launched engine answers."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

import aiohttp
import msgspec

from engine.backends.plan import LaunchPlan

PROBE_TIMEOUT_S = 5.0
"""/health is answered in well under a second; a neighbour's imports may hold the cores for longer."""


class Probe(Protocol):
    """Asks an engine."""

    async def ready(self) -> str | None:
        """None when it is ready, else what is still missing, in words."""
        ...

    async def close(self) -> None:
        """Release the connection."""
        ...


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class HttpProbe:
    """`/health`, then `/v1/models` with the key: it serves the name that the gateway will ask for."""

    def __init__(self, plan: LaunchPlan, api_key: str) -> None:
        self._served_name = plan.served_name
        endpoint = plan.endpoint
        connector = aiohttp.UnixConnector(path=endpoint.uds) if endpoint.uds else aiohttp.TCPConnector()
        self._base = "http://engine" if endpoint.uds else endpoint.url
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def ready(self) -> str | None:
        """None when it is ready, else what is still missing, in words."""
        try:
            async with self._session.get(f"{self._base}/health") as response:
                if response.status != 200:
                    return f"/health answers {response.status}"
            async with self._session.get(f"{self._base}/v1/models") as response:
                if response.status != 200:
                    return f"/v1/models answers {response.status}"
                models = msgspec.json.decode(await response.read(), type=_Models)
        except (aiohttp.ClientError, OSError):
            return "its port does not answer yet"
        except msgspec.DecodeError:
            return "/v1/models is not understood"
        if self._served_name not in {model.id for model in models.data}:
            return f"/v1/models does not list {self._served_name}"
        return None

    async def close(self) -> None:
        """Release the connection."""
        await self._session.close()
