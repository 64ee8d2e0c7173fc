"""What the clients logged: JSON lines, one event each, and the values made from them.

Events of a producer: started, ack, aborted, error, stopped. Of a consumer: started, assigned, revoked, read, error,
leaving, stopped. Every event has `ev` and `t` (wall clock, milliseconds; all clients run on one machine).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from demo.records import RecordId


class Side(StrEnum):
    """Which cluster a consumer was pointed at."""

    SOURCE = "source"
    TARGET = "target"


class Ack(NamedTuple):
    """One acknowledgement as the producer's application got it. `offset` is -1 when the client was not told."""

    seq: int
    partition: int
    offset: int
    at_ms: int


class ReadBatch(NamedTuple):
    """Records of one partition that one member read in one poll, in order; `offsets[i]` belongs to `ids[i]`."""

    member: str
    side: Side
    partition: int
    at_ms: int
    offsets: list[int]
    ids: list[RecordId]


class Departure(NamedTuple):
    """A member that began to leave its group: its last commit, then close."""

    member: str
    side: Side
    at_ms: int


class ClientError(NamedTuple):
    """An error that a client's application was shown."""

    client: str
    at_ms: int
    message: str


@dataclass(slots=True)
class History:
    """All that the clients logged: acks and aborted numbers by producer, reads and departures by group, errors."""

    acks: dict[str, list[Ack]] = field(default_factory=lambda: defaultdict(list))
    aborted: dict[str, list[range]] = field(default_factory=lambda: defaultdict(list))
    reads: dict[str, list[ReadBatch]] = field(default_factory=lambda: defaultdict(list))
    departures: dict[str, list[Departure]] = field(default_factory=lambda: defaultdict(list))
    errors: list[ClientError] = field(default_factory=list)

    def add_producer(self, producer: str, events: Iterable[Mapping[str, Any]]) -> None:
        """Take in a producer's events, in the order it wrote them."""
        acks = self.acks[producer]
        for event in events:
            match event["ev"]:
                case "ack":
                    acks.append(Ack(event["s"], event["p"], event["o"], event["t"]))
                case "aborted":
                    self.aborted[producer].append(range(event["first"], event["next"]))
                case "error":
                    self.errors.append(ClientError(producer, event["t"], event["message"]))

    def add_member(self, group: str, member: str, side: Side, events: Iterable[Mapping[str, Any]]) -> None:
        """Take in a consumer's events, in the order it wrote them."""
        for event in events:
            match event["ev"]:
                case "read":
                    ids = [RecordId(producer, seq) for producer, seq in event["ids"]]
                    batch = ReadBatch(member, side, event["p"], event["t"], event["o"], ids)
                    self.reads[group].append(batch)
                case "leaving":
                    self.departures[group].append(Departure(member, side, event["t"]))
                case "error":
                    self.errors.append(ClientError(member, event["t"], event["message"]))


def parse_lines(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Events of a client's log.

    Raises:
        ValueError: A line is not a JSON object with `ev` and `t`.
    """
    events = []
    for line in lines:
        event = json.loads(line)
        if not isinstance(event, dict) or "ev" not in event or "t" not in event:
            raise ValueError(f"not an event: {line[:200]!r}")
        events.append(event)
    return events
