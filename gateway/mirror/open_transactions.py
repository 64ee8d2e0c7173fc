"""Says which transaction a partition waits for: records are mirrored up to the last stable offset only."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Protocol

from gateway.net.cluster import Cluster
from gateway.net.errors import NetError, UnsupportedVersion
from gateway.net.producers import OpenTransaction, open_transactions
from gateway.replication.start import batch_at
from gateway.replication.tasks import Tasks
from protocol.errors import ProtocolError

_log = logging.getLogger(__name__)

WORTH_TELLING_S: Final = 5.0
"""A transaction is told of when it has held a partition up for so long."""

_ASK_S: Final = 10.0
_AGAIN_S: Final = 30.0  # after a question that was not answered


class Waiting(Protocol):
    """A partition's mirror, as this module sees it."""

    source_topic: str
    partition: int
    waits_for: str

    @property
    def held_up_at(self) -> int:
        """The last stable offset if everything below it is read and there is more beyond it; else -1."""


class OpenTransactions:
    """Looks after the partitions of one link, one way. Args: the cluster that is mirrored, and tasks to ask it in."""

    def __init__(self, origin: Cluster, tasks: Tasks) -> None:
        self._origin = origin
        self._tasks = tasks
        self._held_up: dict[Waiting, tuple[int, float]] = {}  # at which offset, since when
        self._asking = False
        self._ask_after = 0.0

    def tick(self, partitions: Iterable[Waiting], now: float) -> None:
        """Once a second: who is held up, and for how long?"""
        before, self._held_up = self._held_up, {}
        ask = []
        for one in partitions:
            offset = one.held_up_at
            if offset < 0:
                one.waits_for = ""
                continue
            at, since = before.get(one, (offset, now))
            if at != offset:
                since, one.waits_for = now, ""
            self._held_up[one] = offset, since
            if not one.waits_for and now - since >= WORTH_TELLING_S:
                ask.append(one)
        if ask and not self._asking and now >= self._ask_after:
            self._asking = True
            self._ask_after = now + _AGAIN_S
            self._tasks.spawn(self._ask(ask), "open transactions")

    async def _ask(self, partitions: list[Waiting]) -> None:
        try:
            found = await self._find({(one.source_topic, one.partition) for one in partitions})
            for one in partitions:
                held_up = self._held_up.get(one)
                if held_up is not None:
                    one.waits_for = await self._told(one, held_up[0], found.get((one.source_topic, one.partition), ()))
            self._ask_after = 0.0
        except (NetError, ProtocolError) as exc:
            _log.warning("open transactions not read: %s", exc)
        finally:
            self._asking = False

    async def _find(self, wanted: set[tuple[str, int]]) -> dict[tuple[str, int], tuple[OpenTransaction, ...]]:
        try:
            return await open_transactions(self._origin, wanted, timeout_s=_ASK_S)
        except UnsupportedVersion:  # before Kafka 2.8
            return {}

    async def _told(self, one: Waiting, offset: int, found: tuple[OpenTransaction, ...]) -> str:
        header = await batch_at(self._origin, one.source_topic, one.partition, offset, timeout_s=_ASK_S)
        since = "" if header is None else f" since {_moment(header.max_timestamp)}"
        transaction = next((each for each in found if each.first_offset >= offset), None)
        if transaction is None:
            return f"waiting for an open transaction{since} (first offset {offset})"
        return (
            f"waiting for transaction of producer id {transaction.producer_id}{since} "
            f"(first offset {transaction.first_offset})"
        )


def _moment(timestamp_ms: int) -> str:
    """Such as 2026-08-01T12:00:00Z."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
