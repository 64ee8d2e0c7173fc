"""TLS before a broker's plain listener, with a certificate that can be exchanged while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread

from gateway.devcluster import DevCluster


class TlsTerminator:
    """Listens on `port`, passes on to `upstream_port`. On an event loop in a thread of its own.

    Attributes:
        client_names: the common names of the certificates that clients came with; '' for none.
    """

    def __init__(self, port: int, upstream_port: int) -> None:
        self._port, self._upstream_port = port, upstream_port
        self._context: ssl.SSLContext | None = None
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.client_names: list[str] = []

    def show(self, certificate: tuple[Path, Path], client_ca: Path | None = None) -> None:
        """Show this certificate from now on; open connections are cut. `client_ca`: clients need one of this CA's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        asyncio.run_coroutine_threadsafe(self._listen(context), self._loop).result(30)

    async def _listen(self, context: ssl.SSLContext) -> None:
        await self._close()
        accepted = partial(self._accepted, context)
        self._context = context
        self._server = await asyncio.start_server(accepted, "127.0.0.1", self._port, ssl=context)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _accepted(
        self, context: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if context is not self._context:  # its handshake was under way when another certificate came
            writer.transport.abort()
            return
        self._writers.add(writer)
        subject = (writer.get_extra_info("peercert") or {}).get("subject", ())
        self.client_names += [value for part in subject for name, value in part if name == "commonName"] or [""]
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", self._upstream_port)
            self._writers.add(back)
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
            self._writers.discard(back)
        writer.transport.abort()
        self._writers.discard(writer)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        if tasks := asyncio.all_tasks(self._loop):  # their connections are gone, so they come to their end
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=5))
        self._loop.close()

    @contextmanager
    def running(self) -> Iterator[TlsTerminator]:
        """For the time of the block; nothing is listened to before `show`."""
        thread = Thread(target=self._run)
        thread.start()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()


def terminator_before(cluster: DevCluster) -> TlsTerminator:
    """At the address that the only broker tells clients of its proxied listener."""
    (node,) = cluster.spec.nodes
    assert node.advertised_port is not None
    assert node.proxied_port is not None
    return TlsTerminator(node.advertised_port, node.proxied_port)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
