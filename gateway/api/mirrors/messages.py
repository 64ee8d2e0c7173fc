"""/v3/links/{link}/mirrors/{topic}/partitions/{partition}/messages"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request
from pydantic import BaseModel, Field

from gateway.api.access.roles import Role, caller_name
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.kafka.logs.log_excerpt import MOST_BYTES, MOST_RECORDS, RecordExcerpt, Shortened
from gateway.topics.messages import MessagePair, SideBySide


class ShortenedData(BaseModel):
    """A key or a value. `size`: all its bytes; `text`: the first of them."""

    size: int
    encoding: Literal["utf-8", "hex"] = Field(description="How `text` shows bytes; hex where they are no text.")
    text: str

    @classmethod
    def of(cls, content: Shortened | None) -> ShortenedData | None:
        """None for null."""
        if content is None:
            return None
        text = _text(content)
        if text is None:
            return cls(size=content.size, encoding="hex", text=content.shown.hex())
        return cls(size=content.size, encoding="utf-8", text=text)


class MessageData(BaseModel):
    """One record. `note`: why nothing of it is shown, null for a record."""

    offset: int
    timestamp_ms: int
    key: ShortenedData | None
    value: ShortenedData | None
    headers_count: int
    note: str | None

    @classmethod
    def of(cls, record: RecordExcerpt | None) -> MessageData | None:
        """None where the cluster has none."""
        if record is None:
            return None
        return cls(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            key=ShortenedData.of(record.key),
            value=ShortenedData.of(record.value),
            headers_count=record.headers,
            note=record.note or None,
        )


class MessagePairData(BaseModel):
    """What both clusters have at one place."""

    source: MessageData | None
    target: MessageData | None
    is_equal: bool = Field(description="Key, value and headers are the same, to the byte.")

    @classmethod
    def of(cls, pair: MessagePair) -> MessagePairData:
        """From what was read."""
        return cls(source=MessageData.of(pair.source), target=MessageData.of(pair.target), is_equal=pair.is_equal)


class LogRangeData(BaseModel):
    """Where a partition's log begins and ends."""

    log_start: int
    log_end: int


class MessagesData(BaseModel):
    """Records of one partition on both clusters, side by side."""

    kind: Literal["KafkaMirrorMessages"] = "KafkaMirrorMessages"
    link_name: str
    mirror_topic_name: str
    partition: int
    source_range: LogRangeData
    target_range: LogRangeData
    data: list[MessagePairData]

    @classmethod
    def of(cls, link: str, topic: str, found: SideBySide) -> MessagesData:
        """From what was read."""
        source, target = (
            LogRangeData(log_start=start, log_end=end) for start, end in (found.source_range, found.target_range)
        )
        return cls(
            link_name=link,
            mirror_topic_name=topic,
            partition=found.partition,
            source_range=source,
            target_range=target,
            data=[MessagePairData.of(pair) for pair in found.pairs],
        )


FromOffset = Annotated[
    int | None, Query(ge=0, description="An offset on the source; without it, the last records of the source.")
]
Count = Annotated[int, Query(ge=1, le=MOST_RECORDS, description="Records at most.")]
MostBytes = Annotated[int, Query(ge=0, le=MOST_BYTES, description="Bytes shown of each key and value.")]


def router(plane: Plane) -> Routes:
    """The route that shows records: an admin's, for what is in them may be nobody else's business."""
    routes = Routes(tags=["mirrors"])

    @routes.get(
        "/v3/links/{link}/mirrors/{topic}/partitions/{partition}/messages",
        Role.ADMIN,
        summary="Show records of both clusters side by side",
    )
    async def show_messages(
        link: str,
        topic: str,
        partition: int,
        request: Request,
        offset: FromOffset = None,
        count: Count = 10,
        max_bytes: MostBytes = 256,
    ) -> MessagesData:
        by = caller_name(request)
        found = await plane().messages.read(link, topic, partition, offset, count, max_bytes, by)
        return MessagesData.of(link, topic, found)

    return routes


def _text(content: Shortened) -> str | None:
    """As text, None where it is none. A character that was cut through at the end is left out."""
    for cut in range(4 if content.size > len(content.shown) else 1):
        try:
            text = content.shown[: len(content.shown) - cut].decode()
        except UnicodeDecodeError:
            continue
        return text if text.isprintable() or all(one.isprintable() or one in "\t\r\n" for one in text) else None
    return None
