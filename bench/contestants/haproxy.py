"""HAProxy as a plain TCP proxy: the floor for a proxy in any language.

`haproxy` splices every byte (splice-request, splice-response): data goes from socket to socket inside the kernel and is
never copied to the proxy. `haproxy_copy` reads and writes like any other program; that is also what `splice-auto` comes
to with Kafka's traffic. The first is the floor, the second what a proxy that looks at bytes can be held against.
`haproxy_tls` ends TLS for its clients.

The broker has a listener of its own for it that advertises HAProxy's port, so that clients stay on the proxy.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.process import Server
from bench.waiting import wait_until
from gateway.devcluster.node import answers

HOST = "127.0.0.1"
INSTALL = "HAProxy is missing, so the bench goes on without its column (Debian: apt install haproxy)"

_CONFIG = """\
global
    nbthread 1
    maxconn 3000
defaults
    mode tcp
{splicing}    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen kafka
    bind {host}:{port}{tls}
    server broker {host}:{broker_port}
"""
_SPLICING = "    option splice-request\n    option splice-response\n"


def haproxy_binary() -> str | None:
    """Path of the program; None when it is not installed (Debian puts it where only root's PATH leads)."""
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")


def haproxy_version() -> str:
    """Its version; `-` when it is not installed."""
    binary = haproxy_binary()
    if binary is None:
        return "-"
    shown = subprocess.run([binary, "-v"], capture_output=True, text=True, check=False).stdout.split()
    return shown[2] if len(shown) > 2 else "unknown"


class HAProxy:
    """One thread, as the gateway has one."""

    def __init__(
        self, folder: Path, port: int, broker_port: int, *, splicing: bool = False, tls: Path | None = None
    ) -> None:
        """`tls`: certificate and key, PEM."""
        self.name = "haproxy_tls" if tls is not None else "haproxy" if splicing else "haproxy_copy"
        self._tls = "" if tls is None else str(tls)
        self._folder = folder
        self._port = port
        self._config = folder / f"{self.name}.cfg"
        values = {"host": HOST, "port": port, "broker_port": broker_port, "splicing": _SPLICING if splicing else ""}
        by_tls = "" if tls is None else f" ssl crt {tls}"
        self._config.write_text(_CONFIG.format(**values, tls=by_tls), encoding="utf-8")
        self._server: Server | None = None

    @property
    def bootstrap(self) -> str:
        """See `Contestant`."""
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """See `Contestant`."""
        return None if self._server is None else self._server.pid

    def start(self) -> None:
        """See `Contestant`."""
        command = [haproxy_binary() or "haproxy", "-db", "-f", str(self._config)]
        server = self._server = Server(self.name, command, self._folder)

        def serves() -> bool:
            server.check_alive()
            return answers(HOST, self._port, certificate=self._tls)

        wait_until(serves, 20.0, "HAProxy to serve")

    def stop(self) -> None:
        """See `Contestant`."""
        if self._server is not None:
            self._server.end(2.0)
            self._server = None
