"""Requests that are written, and whose answers are read, by position: where they are about thousands of partitions,
`protocol.codec` would make an object for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from protocol.apis import ApiKey
from protocol.wire import Buffer


class RawRequest(ABC):
    """In place of a message of `protocol.messages`, for whoever sends one."""

    API_KEY: ClassVar[ApiKey]
    max_version: ClassVar[int]

    @abstractmethod
    def encode(self, version: int) -> bytes:
        """The request's body."""

    @abstractmethod
    def decode(self, body: Buffer, version: int) -> Any:
        """What its answer says. Raises MalformedFrame when it is no such answer."""
