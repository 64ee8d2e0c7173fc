"""Requests encoded, and answers decoded, by position: for thousands of partitions `protocol.codec` would make an object
for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from protocol.apis import ApiKey
from protocol.wire import Buffer

_THROTTLE: Final = slice(0, 4)


def throttle_ms(request: RawRequest, body: Buffer, version: int) -> int:
    """The throttle time in the request's answer (KIP-124); 0 if the version has none."""
    return int.from_bytes(body[_THROTTLE], signed=True) if version >= request.throttled_from else 0


class RawRequest(ABC):
    """Can be sent instead of a message of `protocol.messages`.

    `throttled_from`: the first version whose answer begins with the throttle time.
    """

    API_KEY: ClassVar[ApiKey]
    max_version: ClassVar[int]
    throttled_from: ClassVar[int]

    @abstractmethod
    def encode(self, version: int) -> bytes:
        """The request's body."""

    @abstractmethod
    def decode(self, body: Buffer, version: int) -> Any:
        """The content of the answer. Raises MalformedFrame for anything else."""
