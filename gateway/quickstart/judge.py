"""What became of the records: counted from what Kafka's own test clients say of themselves. Pure.

A `VerifiableProducer` prints a line of JSON for each record that was acknowledged, a `VerifiableConsumer` one for each
record that it got (`--verbose`). The gateway's own counters have no part in it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Value = str
"""Of a record: no two have the same."""


@dataclass(frozen=True, slots=True)
class Count:
    """Of records: written (acknowledged), `lost` (of these never read), `duplicated` (read more than once), `errors`
    (sends that failed)."""

    written: int
    lost: int
    duplicated: int
    errors: int

    @property
    def passed(self) -> bool:
        """Every record that was written was read once, and no client was told of an error."""
        return self.written > 0 and not (self.lost or self.duplicated or self.errors)


def judge(producers: Iterable[str], consumers: Iterable[str]) -> Count:
    """From the lines that the clients have printed; a last line that is not whole yet is left out."""
    sent = list(_events(producers))
    written = {event["value"] for event in sent if event["name"] == "producer_send_success"}
    read = Counter(event["value"] for event in _events(consumers) if event["name"] == "record_data")
    return Count(
        written=len(written),
        lost=sum(value not in read for value in written),
        duplicated=sum(count > 1 for count in read.values()),
        errors=sum(event["name"] == "producer_send_error" for event in sent),
    )


def has_partitions(consumer: Iterable[str]) -> bool:
    """True while a consumer of a group has been assigned some, by the lines that it has printed."""
    last = [event for event in _events(consumer) if event["name"].startswith("partitions_")]
    return bool(last) and last[-1]["name"] == "partitions_assigned" and bool(last[-1]["partitions"])


def _events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("{"):
            try:
                event = json.loads(line)
            except ValueError:  # it is being written just now
                continue
            if isinstance(event, dict) and isinstance(event.get("name"), str):
                yield event
