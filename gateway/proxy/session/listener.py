"""One listener as sessions see it: where its brokers are, and who a client is by its certificate.

All listeners lead to the same target. A broker has a port of its own at each of them, or a name by which it is asked
for at the bootstrap port (SNI), and clients are told those of the listener they came by.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from gateway.proxy.identity.identity import TokenIdentity
from gateway.proxy.rules.proxy_protocol import Proxies
from gateway.proxy.rules.server_names import ServerNames


def _nobody(_: bytes) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Attributes.

    name: '' of the first listener.
    host: to listen on. advertised_host: what clients are told.
    port_of: node id -> port to listen on; raises ValueError when there is none.
    advertised_port: of bootstrap, which clients are told; None: `bootstrap_port`. told_behind: brokers' ports are
    told as so much behind those that are listened on.
    names: by which clients ask for brokers; None: by ports alone. by_name: names are what its clients are told.
    has_ports: brokers have ports here.
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
    advertised_port: int | None = None
    told_behind: int = 0
    names: ServerNames | None = None
    by_name: bool = False
    has_ports: bool = True

    def bootstrap(self) -> tuple[str, int]:
        """Where clients begin."""
        return self.advertised_host, self.advertised_port or self.bootstrap_port

    def broker(self, node_id: int) -> tuple[str, int]:
        """Where clients that came by here find a broker."""
        if self.names is not None and self.by_name:
            return self.names.host_of(node_id), self.bootstrap()[1]
        return self.advertised_host, self.port_of(node_id) + self.told_behind

    def told(self, node_id: int | None) -> str:
        """For the log and /health."""
        port = "bootstrap" if node_id is None else str(node_id)
        return f"{self.name}.{port}" if self.name else port
