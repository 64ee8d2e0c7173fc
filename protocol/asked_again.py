"""Repeated questions: an answer with the same bytes as the previous one is not decoded again.

Metadata and configs of many topics are polled every few seconds, and hardly ever change. To decode such an answer takes
a hundred times as long as to see that it says nothing new.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_body
from protocol.messages import DescribeConfigsRequest, MetadataRequest
from protocol.raw import RawRequest
from protocol.wire import INT32, Buffer

_SIZE = 16  # bytes of a digest


class AnswerDigest(NamedTuple):
    """An answer. `message`: None if it has the known digest. `digest`: of everything but the throttle time."""

    message: Any | None
    digest: bytes


class _AskedAgain(RawRequest):
    """`message`: of `protocol.messages`. `known`: the digest of the previous answer; b"" for none."""

    def __init__(self, message: Any, known: bytes) -> None:
        self._message = message
        self._known = known

    def encode(self, version: int) -> bytes:
        """See `RawRequest`."""
        return encode_body(self._message, version)

    def decode(self, body: Buffer, version: int) -> AnswerDigest:
        """See `RawRequest`."""
        found = blake2b(digest_size=_SIZE, salt=version.to_bytes(2, "big"))
        found.update(memoryview(body)[INT32.size if version >= self.throttled_from else 0 :])
        digest = found.digest()
        if digest == self._known:
            return AnswerDigest(None, digest)
        return AnswerDigest(decode_response(self.API_KEY, version, body), digest)


class MetadataAgain(_AskedAgain):
    """A repeated MetadataRequest."""

    API_KEY = ApiKey.METADATA
    max_version = MetadataRequest.max_version
    throttled_from = 3


class DescribeConfigsAgain(_AskedAgain):
    """A repeated DescribeConfigsRequest."""

    API_KEY = ApiKey.DESCRIBE_CONFIGS
    max_version = DescribeConfigsRequest.max_version
    throttled_from = 0
