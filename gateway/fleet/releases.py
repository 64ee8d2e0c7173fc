"""Partitions on their way from one gateway to the next: asking for them, and giving them.

The answer to `release` comes when the giver has no append in flight any more, and brings its producer tables along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog

from gateway.fleet.peers.channel import Peers
from gateway.fleet.rules.heartbeats import decode_partitions, encode_partitions
from gateway.fleet.rules.ownership_transfer import OwnershipTransfer
from gateway.kafka.connection.errors import NetError
from gateway.mirror.interface import OwnedMirrors
from gateway.mirror.partition.rules.producer_table import CarriedTable
from gateway.mirror.rules.period import MirrorPartition
from gateway.state.producer_entries import PackedProducers

RELEASE: Final = "release"
EVERYBODY: Final = "*"
_ANSWER_S: Final = 1.0  # the giver goes on for longer than that, unless it was asked
_AT_ONCE: Final = 32  # partitions per question
_ENTRIES: Final = 80_000  # of all tables in an answer: some 0.8 MB, in 8 ms; a table has 50,000 at most
_KEPT_S: Final = 10.0  # tables that did not fit are asked for at once
_log = structlog.get_logger("lockgate.fleet")

Tables = Mapping[MirrorPartition, CarriedTable]


class Releases:
    """Args.

    carry_on: called when `ownership_transfer.here` has changed, to have the engine follow.
    clock: monotonic seconds.
    kept: what is not given away now, whoever asks.
    """

    def __init__(
        self,
        peers: Peers,
        engine: OwnedMirrors,
        ownership_transfer: OwnershipTransfer,
        carry_on: Callable[[], None],
        clock: Callable[[], float],
        kept: Callable[[], Collection[MirrorPartition]] = tuple,
    ) -> None:
        self._peers = peers
        self._engine = engine
        self._transfer = ownership_transfer
        self._carry_on = carry_on
        self._clock = clock
        self._kept = kept
        self._tables: dict[MirrorPartition, tuple[float, CarriedTable]] = {}  # not told yet, until when
        self._tasks: set[asyncio.Task[None]] = set()
        peers.handlers[RELEASE] = self._give

    def ask(self, holder: str, partitions: frozenset[MirrorPartition]) -> None:
        """Ask one gateway, or EVERYBODY, and run the partitions here once they are released; returns at once."""
        ordered = sorted(partitions)
        chunks = (ordered[at : at + _AT_ONCE] for at in range(0, len(ordered), _AT_ONCE))
        task = asyncio.get_running_loop().create_task(self._take(holder, list(chunks)), name=f"take from {holder}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End what is under way."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def _take(self, holder: str, chunks: Iterable[Sequence[MirrorPartition]]) -> None:
        for chunk in chunks:
            began = self._clock()
            names = sorted(self._peers.expected()) if holder == EVERYBODY else [holder]
            tables = await asyncio.gather(*(self._released(name, chunk) for name in names))
            for each in tables:
                self._engine.carry_over(each)
            self._transfer.answered(chunk)
            self._carry_on()
            _log.info(
                "mirror partitions taken over",
                holder=holder,
                partitions=len(chunk),
                first=str(chunk[0]),
                asked_ms=round((self._clock() - began) * 1000, 1),
            )

    async def _released(self, gateway: str, partitions: Sequence[MirrorPartition]) -> Tables:
        found: dict[MirrorPartition, CarriedTable] = {}
        asked = encode_partitions(partitions)
        try:
            while asked:
                answer = await self._peers.ask(gateway, RELEASE, {"partitions": asked}, _ANSWER_S)
                found |= _decode(answer)
                asked = encode_partitions(decode_partitions(answer.get("more", ())))
        except (NetError, KeyError, ValueError, TypeError) as exc:  # it is not waited for: two appenders do no harm
            _log.warning("mirror partitions are taken without an answer", gateway=gateway, reason=str(exc))
        return found

    async def _give(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        asked, by = decode_partitions(body["partitions"]), str(body["from"])
        given = self._transfer.give(asked, by, self._clock(), keep=self._kept())
        if given:
            tables = await self._engine.release(given)
            self._carry_on()
            until = self._clock() + _KEPT_S
            self._tables |= {each: (until, table) for each, table in tables.items()}
        return self._answer(asked)

    def _answer(self, asked: Collection[MirrorPartition]) -> Mapping[str, Any]:
        """As many whole tables as go into one answer, and which are yet to be asked for."""
        now = self._clock()
        self._tables = {each: kept for each, kept in self._tables.items() if kept[0] > now}
        told: dict[MirrorPartition, CarriedTable] = {}
        waiting = sorted(each for each in asked if each in self._tables)
        entries = 0
        while waiting and (not told or entries + len(self._tables[waiting[0]][1].entries) <= _ENTRIES):
            each = waiting.pop(0)
            told[each] = self._tables.pop(each)[1]
            entries += len(told[each].entries)
        return _encode(told) | {"more": encode_partitions(waiting)}


def _encode(tables: Tables) -> dict[str, Any]:
    return {
        "tables": [[*each, table.read_to, PackedProducers.of(table.entries).text] for each, table in tables.items()]
    }


def _decode(answer: Mapping[str, Any]) -> Tables:
    return {
        MirrorPartition(str(link), str(topic), int(index)): CarriedTable(int(read_to), PackedProducers.read(str(text)))
        for link, topic, index, read_to, text in answer["tables"]
    }
