"""What clients are answered of promoted topics, asked of all gateways, for the stop rule `client_errors_percent`.

The leader asks every process of the fleet, itself too, once in `LOOK_EVERY_S`, for each migration whose file has the
rule, while it is RUNNING or PAUSED. Who is asked watches for some seconds more; so nothing is watched that nobody asks
for. Each keeps the last minute of its own, so a new leader knows as much at its first look.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from gateway.kafka.connection.errors import NetError
from gateway.migration.rules.client_errors import (
    WINDOW_S,
    AnswerCount,
    ClientErrors,
    Name,
    decode_counts,
    decode_names,
    encode_counts,
    encode_names,
    promoted_names,
    summed,
)
from gateway.migration.rules.file import FileError, MigrationFile, of_text
from gateway.operations.records import Records
from gateway.state.migration_records import MigrationRecord, MigrationState

LOOK_EVERY_S: Final = 2.0
ASK: Final = "client-errors"
_ANSWER_S: Final = 1.0
_LIVE: Final = (MigrationState.RUNNING, MigrationState.PAUSED)


class CountsAnswers(Protocol):
    """Of one process: `AnswerWatch`."""

    def watch(self, migration: str, version: str, names: frozenset[Name] | None) -> bool:
        """Watch these from now on. `names`: None when they are to be known by their version. False: they are not."""

    def sums(self, migration: str, seconds: float) -> Mapping[Name, AnswerCount]:
        """What was seen of them in the last `seconds`."""


class ErrorWatch(NamedTuple):
    """What a gateway is asked: to watch the names of a migration, and what it has seen in the last `seconds`."""

    migration: str
    names: frozenset[Name]
    seconds: float


class AsksGateways(Protocol):
    """Asks all processes of the fleet: `FleetAnswers`."""

    async def __call__(self, asked: ErrorWatch) -> ClientErrors:
        """Of all that tell."""


async def nobody_counts(asked: ErrorWatch) -> ClientErrors:
    """Where there are no clients."""
    return ClientErrors(gateways=0)


class PeersAsked(Protocol):
    """What is used of `Peers`."""

    handlers: dict[str, Any]

    def expected(self) -> frozenset[str]:
        """The other gateways."""

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """Ask one of them."""


class FleetAnswers:
    """Asks the others, and answers them. Names go once; after that their version stands for them."""

    def __init__(self, peers: PeersAsked, own: CountsAnswers) -> None:
        self._peers = peers
        self._own = own
        peers.handlers[ASK] = self._answer

    async def __call__(self, asked: ErrorWatch) -> ClientErrors:
        """Of all that tell within a second."""
        names = encode_names(asked.names)
        version = hashlib.sha256(json.dumps(names).encode()).hexdigest()[:16]
        others = sorted(self._peers.expected())
        told = await asyncio.gather(*(self._ask(name, asked, version, names) for name in others))
        self._own.watch(asked.migration, version, asked.names)
        own = self._own.sums(asked.migration, asked.seconds)
        unheard = [name for name, counts in zip(others, told, strict=True) if counts is None]
        return summed([own, *(counts for counts in told if counts is not None)], unheard)

    async def _ask(
        self, gateway: str, asked: ErrorWatch, version: str, names: list[list[str]]
    ) -> Mapping[Name, AnswerCount] | None:
        body = {"migration": asked.migration, "version": version, "seconds": asked.seconds}
        try:
            said = await self._peers.ask(gateway, ASK, body, _ANSWER_S)
            if said.get("unknown"):
                said = await self._peers.ask(gateway, ASK, {**body, "names": names}, _ANSWER_S)
            return decode_counts(said["counts"])
        except (NetError, KeyError, TypeError, ValueError):  # gone, slow, or of an older version
            return None

    async def _answer(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        migration, names = str(body["migration"]), body.get("names")
        if not self._own.watch(migration, str(body["version"]), None if names is None else decode_names(names)):
            return {"unknown": True}
        return {"counts": encode_counts(self._own.sums(migration, float(body["seconds"])))}


class WatchedErrors:
    """Of all migrations that have the rule; `look` asks, `of` has what was told last."""

    def __init__(self, *, records: Records, ask: AsksGateways) -> None:
        self._records = records
        self._store = records.store
        self._ask = ask
        self._files: dict[str, tuple[str, MigrationFile | None]] = {}
        self._names: dict[str, tuple[tuple[int, str], frozenset[Name]]] = {}
        self._told: dict[str, tuple[tuple[int, frozenset[Name]], ClientErrors]] = {}

    def of(self, migration: str) -> ClientErrors | None:
        """What is known; None: the rule is not in its file, or nobody was asked yet since it went on or stopped, or
        since something of it was promoted."""
        record, told = self._store.migrations.get(migration), self._told.get(migration)
        if record is None or told is None or told[0] != (record.state_since_ms, self._names_of(record)):
            return None
        return told[1]

    async def look(self) -> None:
        """Ask for each migration that has the rule."""
        live = [record for record in self._store.migrations.values() if self._is_watched(record)]
        kept = {record.name for record in live}
        self._told = {name: told for name, told in self._told.items() if name in kept}
        self._names = {name: known for name, known in self._names.items() if name in kept}
        self._files = {name: known for name, known in self._files.items() if name in self._store.migrations}
        await asyncio.gather(*(self._look_at(record) for record in live))

    async def _look_at(self, record: MigrationRecord) -> None:
        names = self._names_of(record)
        told = await self._ask(ErrorWatch(record.name, names, self._seconds(record))) if names else ClientErrors()
        self._told[record.name] = (record.state_since_ms, names), told

    def _seconds(self, record: MigrationRecord) -> float:
        """Who goes on begins to count anew: what was answered before counts no more."""
        return min(WINDOW_S, max(0.0, (self._records.now_ms() - record.state_since_ms) / 1000))

    def _is_watched(self, record: MigrationRecord) -> bool:
        if record.state not in _LIVE:
            return False
        file = self._file(record)
        return file is not None and file.stop_when.client_errors_percent is not None

    def _file(self, record: MigrationRecord) -> MigrationFile | None:
        """None: a newer version has written it."""
        text, known = self._files.get(record.name, ("", None))
        if text == record.file:
            return known
        try:
            file = of_text(record.file)
        except (FileError, ValueError):
            file = None
        self._files[record.name] = record.file, file
        return file

    def _names_of(self, record: MigrationRecord) -> frozenset[Name]:
        seen = self._store.applied, record.file
        known = self._names.get(record.name)
        if known is not None and known[0] == seen:
            return known[1]
        file = self._file(record)
        names = (
            frozenset[Name]()
            if file is None
            else promoted_names(file, self._store.mirrors.values(), self._store.groups.values())
        )
        self._names[record.name] = seen, names
        return names
