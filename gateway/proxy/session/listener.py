"""One listener as sessions see it: where its brokers are, and who a client is by its certificate.

All listeners lead to the same target. A broker has a port of its own at each of them, and clients are told those of the
listener they came by.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from gateway.proxy.identity.identity import TokenIdentity
from gateway.proxy.rules.proxy_protocol import Proxies


def _nobody(_: bytes) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Attributes.

    name: '' of the first listener.
    host: to listen on. advertised_host: what clients are told.
    port_of: node id -> port; raises ValueError when there is none.
    tls: the context of now, asked at each connection; None without TLS.
    proxies: who puts a PROXY header before each connection; None: nobody, and none is looked for.
    principal: of a verified certificate in DER; raises ValueError when its owner is nobody here.
    identity: how the gateway itself finds out who clients are, and logs in for them; None: the target does.
    """

    name: str = ""
    host: str
    advertised_host: str
    bootstrap_port: int
    port_of: Callable[[int], int]
    tls: Callable[[], ssl.SSLContext] | None = None
    proxies: Proxies | None = None
    principal: Callable[[bytes], str] = _nobody
    identity: TokenIdentity | None = None

    def broker(self, node_id: int) -> tuple[str, int]:
        """Where clients that came by here find a broker."""
        return self.advertised_host, self.port_of(node_id)

    def told(self, node_id: int | None) -> str:
        """For the log and /health."""
        port = "bootstrap" if node_id is None else str(node_id)
        return f"{self.name}.{port}" if self.name else port
