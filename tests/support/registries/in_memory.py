"""The client of a registry, over registries of a test without sockets."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import unquote

import httpx

from gateway.schemas.registry import Registry
from gateway.state.schemas.registry_properties import RegistryConfig, RegistrySide
from tests.support.registries.strict_registry import StrictRegistry


class _Transport(httpx.AsyncBaseTransport):
    def __init__(self, registry: StrictRegistry, takes: Callable[[], Awaitable[None]]) -> None:
        self._registry, self._takes = registry, takes

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().partition("?")[0]
        decoded = "/".join(unquote(part).replace("/", "\0") for part in path.split("/"))
        content = await request.aread()
        body = json.loads(content) if content else None
        await self._takes()
        status, answer = self._registry.take(request.method, decoded, dict(request.url.params), body)
        await self._takes()
        return httpx.Response(status, stream=httpx.ByteStream(json.dumps(answer).encode()))


async def _no_time() -> None:
    """An answer that is there at once."""


def in_memory(
    registries: Mapping[str, StrictRegistry], takes: Callable[[], Awaitable[None]] = _no_time
) -> type[Registry]:
    """In the place of `Registry`: by URL. `takes`: awaited on the way there, and on the way back."""

    class InMemory(Registry):
        def __init__(self, side: RegistrySide, config: RegistryConfig) -> None:
            super().__init__(side, config)
            self._http = httpx.AsyncClient(transport=_Transport(registries[config.url], takes))

    return InMemory
