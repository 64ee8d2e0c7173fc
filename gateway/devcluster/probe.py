"""Whether a broker answers: one request over a plain socket.

A KRaft broker opens its client listeners only once the controller has resumed it, so an answer to ApiVersions means
that the broker takes part in the cluster. A broker of a ZooKeeper answers before: it is asked for the controller.
"""

import socket
import ssl
import struct
from typing import Final

_CORRELATION_ID: Final = 7
_REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, _CORRELATION_ID, -1)
"""ApiVersions v0: size, api key, version, correlation id, null client id; no body."""

_EXPECTED: Final = struct.pack(">ih", _CORRELATION_ID, 0)
"""After the size: correlation id, no error."""


_METADATA: Final = struct.pack(">ihhihi", 14, 3, 1, _CORRELATION_ID, -1, 0)
"""Metadata v1 of no topics."""

_NO_CONTROLLER: Final = -1


def answers(host: str, port: int, timeout_s: float = 1.0, *, certificate: str = "") -> bool:
    """Whether a Kafka broker answers ApiVersions without an error at this address within `timeout_s` seconds.

    `certificate`: PEM file with a client's certificate and key, for a listener that speaks TLS.
    """
    return _exchange(host, port, _REQUEST, timeout_s, certificate)[:6] == _EXPECTED


def knows_controller(host: str, port: int, timeout_s: float = 1.0, *, certificate: str = "") -> bool:
    """Whether a Kafka broker at this address names itself or others as brokers, and one as the controller."""
    answer = _exchange(host, port, _METADATA, timeout_s, certificate)[4:]
    try:
        (brokers,) = struct.unpack_from(">i", answer)
        at = 4
        for _ in range(brokers):
            at = _after_string(answer, _after_string(answer, at + 4) + 4)  # id, host, port, rack
        (controller,) = struct.unpack_from(">i", answer, at)
    except struct.error:
        return False
    return bool(brokers > 0 and controller != _NO_CONTROLLER)


def _after_string(data: bytes, at: int) -> int:
    (size,) = struct.unpack_from(">h", data, at)
    return int(at + 2 + max(0, size))


def _exchange(host: str, port: int, request: bytes, timeout_s: float, certificate: str) -> bytes:
    """The answer after its size; empty when there is none."""
    try:
        with _connected(host, port, timeout_s, certificate) as connection:
            connection.sendall(request)
            head = _receive(connection, 4)
            return _receive(connection, int.from_bytes(head, "big")) if len(head) == 4 else b""
    except OSError:
        return b""


def _connected(host: str, port: int, timeout_s: float, certificate: str) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=timeout_s)
    if not certificate:
        return connection
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is asked whether it is up, and no more
        context.load_cert_chain(certificate)
        return context.wrap_socket(connection)
    except BaseException:
        connection.close()
        raise


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            break
        data += piece
    return data
