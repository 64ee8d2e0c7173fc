"""Requests that are written, and whose answers are read, by position: where they are about thousands of partitions,
`protocol.codec` would make an object for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from protocol.apis import ApiKey
from protocol.wire import Buffer

_THROTTLE: Final = slice(0, 4)


def throttle_ms(request: RawRequest, body: Buffer, version: int) -> int:
    """What its answer says of throttling (KIP-124), 0 where it says nothing."""
    return int.from_bytes(body[_THROTTLE], signed=True) if version >= request.throttled_from else 0


class RawRequest(ABC):
    """In place of a message of `protocol.messages`, for whoever sends one.

    `throttled_from`: the version from which on its answer begins with how long the broker throttles.
    """

    API_KEY: ClassVar[ApiKey]
    max_version: ClassVar[int]
    throttled_from: ClassVar[int]

    @abstractmethod
    def encode(self, version: int) -> bytes:
        """The request's body."""

    @abstractmethod
    def decode(self, body: Buffer, version: int) -> Any:
        """What its answer says. Raises MalformedFrame when it is no such answer."""
