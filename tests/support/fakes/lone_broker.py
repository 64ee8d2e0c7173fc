"""A cluster of one scripted broker, which is its own controller."""

from __future__ import annotations

from typing import Any

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import MetadataResponse
from tests.support.fakes.fake_broker import FakeBroker


class LoneBroker(FakeBroker):
    """`refuses`: names that it refuses; `code`: what it answers whole questions with."""

    refuses = frozenset[str]()
    code = int(ErrorCode.NONE)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sent: list[tuple[Any, ...]] = []
        self.handlers[ApiKey.METADATA] = lambda _: self._metadata()

    def _metadata(self) -> Any:
        broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port, rack=None)
        return MetadataResponse(brokers=[broker], cluster_id="c", controller_id=1, topics=[])

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"
