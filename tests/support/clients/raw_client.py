"""One connection that asks and waits for the answer: requests that no client library would send."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

from protocol.codec import decode_response, encode_request
from protocol.header import response_body_offset
from protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest


class RawClient:
    """Connected at once. `user`: of PLAIN, whose password is the name; '' where nobody logs in."""

    def __init__(self, bootstrap: str, user: str = "", *, client_id: str = "me") -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self._client_id = client_id
        if user:
            assert not self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code
            secret = f"\0{user}\0{user}".encode()
            assert not self.ask(SaslAuthenticateRequest(auth_bytes=secret), 2).error_code

    def send(self, message: Any, version: int) -> None:
        """Without waiting for the answer."""
        self.socket.sendall(encode_request(message, version, 5, self._client_id))

    def ask(self, message: Any, version: int) -> Any:
        """The answer, decoded. Raises AssertionError when the connection was closed, TimeoutError after 30 s."""
        self.send(message, version)
        key = int(message.API_KEY)
        (size,) = struct.unpack(">i", self._read(4))
        frame = memoryview(self._read(size))
        return decode_response(key, version, frame[response_body_offset(key, version, frame) :])

    def close(self) -> None:
        """A reset, if an answer is outstanding."""
        self.socket.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            assert more, "the connection was closed"
            data += more
        return data


def error_codes(answer: Any) -> set[int]:
    """All that are in it, at any depth, but 0."""
    return {int(code) for code in _codes(answer.to_dict()) if code}


def _codes(value: Any) -> Iterator[int]:
    match value:
        case dict():
            for name, part in value.items():
                if name in ("error_code", "partition_error_code"):
                    yield part
                else:
                    yield from _codes(part)
        case list():
            for part in value:
                yield from _codes(part)
        case _:
            pass
