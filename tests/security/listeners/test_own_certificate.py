"""The gateway's certificate is the gateway's: no client is taken for it."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.config.settings import Settings
from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.groups.gate.rules.gates import GroupGates
from gateway.kafka.connection.config import ClusterConfig
from gateway.mirror.rules.progress import MirrorProgress
from gateway.runtime.data_plane import DataPlane
from gateway.state.views import StateViews
from tests.support.identities.self_signed import self_signed


class Broker:
    """A TLS server that asks for a certificate, and tells whom it took each connection for."""

    def __init__(self, folder: Path) -> None:
        crt, key = self_signed(folder, "broker")
        own, own_key = self_signed(folder, "lockgate-admin")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(crt, key)
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.context.load_verify_locations(own)
        self.seen: asyncio.Queue[Any] = asyncio.Queue()
        self.properties = {
            "ssl.ca.location": str(crt),
            "ssl.certificate.location": str(own),
            "ssl.key.location": str(own_key),
        }

    async def start(self) -> asyncio.Server:
        return await asyncio.start_server(self._accepted, "127.0.0.1", 0, ssl=self.context)

    def _accepted(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen.put_nowait(writer.get_extra_info("peercert"))
        writer.close()


async def test_no_client_session_has_the_gateways_certificate(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    async with await broker.start() as server:
        host, port = server.sockets[0].getsockname()
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"}
        target = {"bootstrap.servers": f"{host}:{port}", "security.protocol": "SASL_SSL", **login, **broker.properties}
        config = ClusterConfig.from_client_properties(target)
        brokers = {1: (host, port, None)}
        data = DataPlane(
            Settings(target=target),
            routing=RoutingTable(),
            gates=GroupGates(),
            progress=MirrorProgress(),
            source_topics=cast("Any", None),
            source_offsets=cast("Any", None),
            target=cast("Any", SimpleNamespace(config=config, view=SimpleNamespace(brokers=brokers, topics={}))),
            sources={},
            on_forwarded=lambda *_: None,
            lease_valid=lambda: True,
            views=StateViews(),
            store_ports=cast("Any", None),
        )
        for context, expected in ((config.ssl_context(), "lockgate-admin"), (data.listeners.target_tls, None)):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
            seen = await asyncio.wait_for(broker.seen.get(), 10)
            assert (dict(pair[0] for pair in seen["subject"])["commonName"] if seen else None) == expected
            writer.close()


def test_a_target_that_knows_the_gateway_by_its_certificate_alone_is_refused(tmp_path: Path) -> None:
    own, key = self_signed(tmp_path, "lockgate-admin")
    target = {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SSL",
        "ssl.certificate.location": str(own),
        "ssl.key.location": str(key),
    }
    with pytest.raises(ValueError, match=r"ssl\.certificate\.location: .* use SASL_SSL") as error:
        Settings(target=target)
    assert "\n" not in error.value.errors()[0]["msg"]  # type: ignore[attr-defined]
