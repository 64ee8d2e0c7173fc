"""Whether a broker answers: one ApiVersions request over a plain socket.

A KRaft broker opens its client listeners only once the controller has unfenced it, so an answer means that the broker
takes part in the cluster.
"""

import socket
import struct
from typing import Final

_CORRELATION_ID: Final = 7
_REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, _CORRELATION_ID, -1)
"""ApiVersions v0: size, api key, version, correlation id, null client id; no body."""

_EXPECTED: Final = struct.pack(">ih", _CORRELATION_ID, 0)
"""After the size: correlation id, no error."""


def answers(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether a Kafka broker answers ApiVersions without an error at this address within `timeout_s` seconds."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(_REQUEST)
            head = _receive(connection, 10)
    except OSError:
        return False
    return head[4:10] == _EXPECTED


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            break
        data += piece
    return data
