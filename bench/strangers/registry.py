"""Schema registries that do harm: what they answer is a few bytes that inflate to gigabytes, or never ends.

A thread each; `empty` is one that answers as an empty registry does.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

_ZEROS: Final = 64 * 1024 * 1024
_DRIP_S: Final = 1.0


class Manner(StrEnum):
    """How a registry answers."""

    EMPTY = "empty"
    BOMB = "bomb"
    TRICKLE = "trickle"


def bomb() -> bytes:
    """Some 300 bytes that are 64 MiB when inflated twice."""
    return gzip.compress(gzip.compress(bytes(_ZEROS), 9), 9)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    manner = Manner.EMPTY
    over: threading.Event
    bomb = b""

    def handle_error(self, request: object, client_address: object) -> None:
        """Who asks may leave."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_args: object) -> None:
        """Silent."""

    def do_GET(self) -> None:
        match self.server.manner:
            case Manner.BOMB:
                self._head(len(self.server.bomb), {"Content-Encoding": "gzip, gzip"})
                self.wfile.write(self.server.bomb)
            case Manner.TRICKLE:
                self._head(1_000_000, {})
                while not self.server.over.wait(_DRIP_S):
                    self.wfile.write(b" ")
            case _:
                path = self.path.split("?")[0]
                found: object = [] if path == "/subjects" else {"mode": "READWRITE", "compatibilityLevel": "BACKWARD"}
                data = json.dumps(found).encode()
                self._head(len(data), {})
                self.wfile.write(data)

    do_PUT = do_POST = do_GET

    def _head(self, length: int, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in {**headers, "Content-Type": "application/json", "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()


class Registry:
    """`url`; `manner` may change at any time."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self.url = f"http://127.0.0.1:{server.server_port}"

    def answer_as(self, manner: Manner) -> None:
        """From now on."""
        self._server.over.set()
        self._server.over = threading.Event()
        self._server.manner = manner


@contextmanager
def registry() -> Iterator[Registry]:
    """One that answers as an empty one does, at first."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.over, server.bomb = threading.Event(), bomb()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield Registry(server)
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
