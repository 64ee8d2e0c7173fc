"""What an attempt and the driver say to each other: the word that lets it in, then lines, the first one JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.jobs.lost_records import LostRange
from gateway.kafka.topic_partition import TopicPartition

MAY: Final = b"may\n"
"""The driver: append. Also its answer to each `HEARTBEAT`."""

FENCED: Final = b"fenced\n"
"""The driver: a newer attempt is here, append no more."""

HEARTBEAT: Final = b"beat\n"
ENDED: Final = b"ended\n"
"""The attempt: it appends no more."""

LOST: Final = b"lost "
"""The attempt: how each line begins that tells what it goes on without (`gateway.jobs.lost_records`)."""

TOLD: Final = b"told\n"
"""The driver: the next one of those lines, in their order, has come to where it is counted."""

LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a line, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the driver listens, and the word that lets an attempt in."""

    host: str
    port: int
    token: str

    def text(self) -> str:
        """As an option of the writer."""
        return f"{self.host} {self.port} {self.token}"

    def word(self) -> bytes:
        """What lets an attempt in, as sent before everything else: its length is known, so no stranger's line is
        read."""
        return self.token.encode() + b"\n"

    @classmethod
    def parse(cls, text: str) -> Address:
        """From the option. Raises ValueError when it is not what `text` makes."""
        host, port, token = text.split()
        return cls(host=host, port=int(port), token=token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first line of an attempt, behind the word."""

    attempt: int
    keys: tuple[TopicPartition, ...]

    def line(self) -> bytes:
        """As sent."""
        return json.dumps({"attempt": self.attempt, "keys": self.keys}).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Hello:
        """As received. Raises ValueError when it is none."""
        try:
            value = json.loads(line)
            keys: Sequence[TopicPartition] = [(str(topic), int(index)) for topic, index in value["keys"]]
            return cls(attempt=int(value["attempt"]), keys=tuple(keys))
        except (TypeError, KeyError, ValueError) as exc:
            raise ValueError(f"not the first line of an attempt: {exc}") from None


def lost_line(lost: LostRange) -> bytes:
    """As sent."""
    return LOST + json.dumps([lost.topic, lost.partition, lost.first, lost.following]).encode() + b"\n"


def parse_lost(line: bytes) -> LostRange:
    """As received. Raises ValueError when it is none."""
    try:
        topic, *numbers = json.loads(line.removeprefix(LOST))
        partition, first, following = map(int, numbers)
    except (TypeError, ValueError) as exc:
        raise ValueError(f"not what an attempt goes on without: {exc}") from None
    return LostRange(str(topic), partition, first, following)
