"""What the brokers' own authorizers wrote down: who was allowed what, for which request.

A line of StandardAuthorizer (Kafka's `StandardAuthorizerData.buildAuditMessage`), denials at INFO, the rest at DEBUG:

    [2026-01-31 12:00:00,123] DEBUG Principal = User:shop is Allowed operation = WRITE from host = 127.0.0.1 on resource
    = Topic:LITERAL:orders for request = Produce with resourceRefCount = 1 based on rule ...
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from gateway.devcluster import DevCluster

_LINE: Final = re.compile(
    r"\[(?P<at>[^\]]+)\] \w+ Principal = User:(?P<who>\S+) is (?P<verdict>Allowed|Denied)"
    r" operation = (?P<operation>\w+)"
    r" from host = \S+ on resource = (?P<kind>\w+):\w+:(?P<name>\S+) for request = (?P<request>\w+)"
)


class Decision(NamedTuple):
    """One line. `at_ms`: wall clock, milliseconds. `who` without `User:`. `resource`: such as `Topic orders`."""

    at_ms: int
    who: str
    allowed: bool
    operation: str
    resource: str
    request: str


def decisions(lines: Iterable[str]) -> Iterator[Decision]:
    """Of a broker's log; other lines are passed over."""
    for line in lines:
        if " operation = " not in line:
            continue
        found = _LINE.match(line)
        if found is not None:
            at = datetime.strptime(found["at"], "%Y-%m-%d %H:%M:%S,%f").astimezone()
            resource = f"{found['kind']} {found['name']}"
            yield Decision(
                int(at.timestamp() * 1000),
                found["who"],
                found["verdict"] == "Allowed",
                found["operation"],
                resource,
                found["request"],
            )


def decisions_of(cluster: DevCluster) -> Iterator[Decision]:
    """Of all its brokers, one after the other."""
    for node in cluster.nodes.values():
        with node.log.open(encoding="utf-8", errors="replace") as log:
            yield from decisions(log)
