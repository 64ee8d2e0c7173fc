"""On which cluster a consumer group's offsets are: for transactions that commit them with their records."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.domain.gates import GateStatus
from gateway.domain.transactional_ids import TARGET
from gateway.domain.transactional_producers import Standing, TransactionalProducer
from gateway.proxy.places import Refused
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from gateway.proxy.context import ProxyContext

_KNOWN_S = 4.0
_LOOK_AGAIN_S = 0.02


def as_name(group: str) -> str:
    """A group among the names of a transaction, where topics are too: no topic has a slash."""
    return f"group/{group}"


async def group_standing(context: ProxyContext, producer: TransactionalProducer, group: str) -> Standing:
    """Where the group commits now: on the target once it is promoted (or never was on a source), else on the source.

    Raises:
        Refused: COORDINATOR_LOAD_IN_PROGRESS while the source has not said whether it has the group.
    """
    deadline = context.clock() + _KNOWN_S
    while (status := context.gates.status(group)) is GateStatus.UNKNOWN:
        if context.clock() >= deadline:
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {group!r} is not known yet")
        await asyncio.sleep(_LOOK_AGAIN_S)
    if status is GateStatus.OPEN:
        return Standing(TARGET)
    return Standing(_source_of(context, producer))


def _source_of(context: ProxyContext, producer: TransactionalProducer) -> str:
    """The source of a gated group: that of the producer's own transaction, else one that is written to."""
    at = producer.open or producer.last
    if at is not None and at.place.cluster:
        return at.place.cluster
    sources = context.standings.sources_written() or context.standings.sources()
    if not sources:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no source was reached yet")
    return min(sources)
