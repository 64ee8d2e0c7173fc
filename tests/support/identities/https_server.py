"""A server of HTTPS in a thread of its own."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from tests.support.identities.certificates import Certificates


@contextmanager
def https_server(handler: type[BaseHTTPRequestHandler], certificates: Certificates) -> Iterator[str]:
    """Its address, `https://127.0.0.1:PORT`, with a certificate of this CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates.server("issuer"))
    made = HTTPServer(("127.0.0.1", 0), handler)
    made.socket = context.wrap_socket(made.socket, server_side=True)
    thread = Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"https://127.0.0.1:{made.server_port}"
    finally:
        made.shutdown()
        thread.join()
        made.server_close()
