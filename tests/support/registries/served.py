"""A registry of a test behind HTTP or HTTPS, with logins."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.identities.certificates import Certificates
from tests.support.registries.strict_registry import StrictRegistry


@contextmanager
def served(
    registry: StrictRegistry,
    *,
    login: str = "",
    certificates: Certificates | None = None,
    client_certificates: bool = False,
) -> Iterator[str]:
    """Its address. `login`: `NAME:PASSWORD`, or a bearer token. `client_certificates`: it wants them."""
    expected = ""
    if login:
        expected = f"Basic {base64.b64encode(login.encode()).decode()}" if ":" in login else f"Bearer {login}"
    handler = type("Handler", (_Handler,), {"registry": registry, "expected": expected, "lock": Lock()})
    server = _Server(("127.0.0.1", 0), handler)
    if certificates is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificates.server("registry"))
        if client_certificates:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(certificates.ca)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{'http' if certificates is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients close connections whenever they like."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    registry: StrictRegistry
    expected: str
    lock: Lock

    def log_message(self, *_args: object) -> None:
        """Silent."""

    def _take(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        data = self.rfile.read(length) if length else b""
        if self.expected and self.headers.get("authorization") != self.expected:
            self._say(401, {"error_code": 40101, "message": "Unauthorized"})
            return
        url = urlsplit(self.path)
        path = "/".join(unquote(part).replace("/", "\0") for part in url.path.split("/"))
        with self.lock:
            body = json.loads(data) if data else None
            status, answer = self.registry.take(self.command, path, dict(parse_qsl(url.query)), body)
        self._say(status, answer)

    def _say(self, status: int, answer: object) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/vnd.schemaregistry.v1+json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _take
