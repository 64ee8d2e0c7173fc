"""The records of the state topic by kind, and the order in which they were written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from operator import attrgetter
from types import MappingProxyType
from typing import Any
from weakref import WeakSet

from gateway.state.acls.acl_records import AclRecord
from gateway.state.codec import Record, mirror_key
from gateway.state.errors import StateWentBack
from gateway.state.failback_records import FORGOTTEN, FailbackEpochRecord
from gateway.state.gateway_records import READS_TABLES, FleetRecord, GatewayRecord, PortRecord
from gateway.state.migration_records import MigrationRecord
from gateway.state.per_partition import with_tables_of
from gateway.state.producer_tables import MOST_BATCHES, MOST_IN_MIRROR, ProducerTablesRecord
from gateway.state.records import GroupRecord, LinkRecord, MirrorRecord, OriginRecord, SequenceRecord
from gateway.state.schemas.schema_records import SchemaRecord


class MirrorChanges:
    """Of which mirror topics a record came, changed or went since that was asked for last, and whether a link's did.

    Made by `StateViews.mirror_changes`; whoever has one asks it, and pays for what has changed only.
    """

    def __init__(self, topics: Iterable[str]) -> None:
        """`topics`: that are there already, which are news as well."""
        self._topics = set(topics)
        self._links = True

    def note(self, record: Record) -> None:
        """It came, or went."""
        match record:
            case MirrorRecord() | FailbackEpochRecord():
                self._topics.add(record.mirror_topic)
            case LinkRecord():
                self._links = True

    def take(self) -> tuple[set[str], bool]:
        """(mirror topics, links) since the last time."""
        found, self._topics, self._links = (self._topics, self._links), set(), False
        return found


class StateViews:
    """Views (read only, always the latest committed): `records` by key, `links` by name, `mirrors` by
    (link, mirror topic), `groups` by (link, group), `ports` by node id, `sequences` and `gateways` by name, `origins`
    by link id. `secret`: '' before a first leader made one.

    `acls`: by link, then by (resource type, pattern type, name). `schemas`: by link, then by subject. `migrations`: by
    name. `failback_epochs`: of deleted mirrors, by mirror topic. `producer_tables`: by link, mirror topic and name.

    `applied`: offset of the last record that is in the views. `mirrors_grown_at`: of the last one that made a mirror
    where there was none, or another one; what was found out about "all mirrors" before says nothing of it.
    """

    def __init__(self) -> None:
        self.applied = -1
        self.lineage = 0  # how often the topic has lost records
        self.mirrors_grown_at = -1
        self._grown_at_of: dict[str, int] = {}
        self._changed_at: dict[str, int] = {}
        self._progress = asyncio.Event()
        self._records: dict[str, Record] = {}
        self._links: dict[str, LinkRecord] = {}
        self._mirrors: dict[tuple[str, str], MirrorRecord] = {}
        self._groups: dict[tuple[str, str], GroupRecord] = {}
        self._ports: dict[int, PortRecord] = {}
        self._sequences: dict[str, SequenceRecord] = {}
        self._gateways: dict[str, GatewayRecord] = {}
        self._origins: dict[int, OriginRecord] = {}
        self._acls: dict[str, dict[tuple[str, str, str], AclRecord]] = {}
        self._schemas: dict[str, dict[str, SchemaRecord]] = {}
        self._migrations: dict[str, MigrationRecord] = {}
        self._failback_epochs: dict[str, FailbackEpochRecord] = {}
        self._producer_tables: dict[tuple[str, str, str], ProducerTablesRecord] = {}
        self.records: Mapping[str, Record] = MappingProxyType(self._records)
        self.links: Mapping[str, LinkRecord] = MappingProxyType(self._links)
        self.mirrors: Mapping[tuple[str, str], MirrorRecord] = MappingProxyType(self._mirrors)
        self.groups: Mapping[tuple[str, str], GroupRecord] = MappingProxyType(self._groups)
        self.ports: Mapping[int, PortRecord] = MappingProxyType(self._ports)
        self.sequences: Mapping[str, SequenceRecord] = MappingProxyType(self._sequences)
        self.gateways: Mapping[str, GatewayRecord] = MappingProxyType(self._gateways)
        self.origins: Mapping[int, OriginRecord] = MappingProxyType(self._origins)
        self.acls: Mapping[str, Mapping[tuple[str, str, str], AclRecord]] = MappingProxyType(self._acls)
        self.schemas: Mapping[str, Mapping[str, SchemaRecord]] = MappingProxyType(self._schemas)
        self.migrations: Mapping[str, MigrationRecord] = MappingProxyType(self._migrations)
        self.failback_epochs: Mapping[str, FailbackEpochRecord] = MappingProxyType(self._failback_epochs)
        self.producer_tables: Mapping[tuple[str, str, str], ProducerTablesRecord] = MappingProxyType(
            self._producer_tables
        )
        self._by_kind: Mapping[type[Any], tuple[dict[Any, Any], Callable[[Any], Any]]] = {
            LinkRecord: (self._links, attrgetter("name")),
            MirrorRecord: (self._mirrors, attrgetter("link", "mirror_topic")),
            GroupRecord: (self._groups, attrgetter("link", "group")),
            PortRecord: (self._ports, attrgetter("node_id")),
            SequenceRecord: (self._sequences, attrgetter("name")),
            GatewayRecord: (self._gateways, attrgetter("name")),
            OriginRecord: (self._origins, attrgetter("link_id")),
            MigrationRecord: (self._migrations, attrgetter("name")),
            FailbackEpochRecord: (self._failback_epochs, attrgetter("mirror_topic")),
            ProducerTablesRecord: (self._producer_tables, attrgetter("link", "mirror_topic", "name")),
        }
        self._below_link: Mapping[type[Any], tuple[dict[str, dict[Any, Any]], Callable[[Any], Any]]] = {
            AclRecord: (self._acls, attrgetter("resource_type", "pattern_type", "name")),
            SchemaRecord: (self._schemas, attrgetter("subject")),
        }
        self._by_topic: dict[str, MirrorRecord] = {}
        self._mirror_changes: WeakSet[MirrorChanges] = WeakSet()  # what asks may end, as a term does
        self._subscribers: list[Callable[[], None]] = []

    @property
    def tables_apart(self) -> bool:
        """Every gateway of the fleet reads producer tables from records of their own."""
        return all(gateway.reads >= READS_TABLES for gateway in self._gateways.values())

    @property
    def most_batches(self) -> int:
        """Batches of producers that one cutover may hand over."""
        return MOST_BATCHES if self.tables_apart else MOST_IN_MIRROR

    @property
    def fleet(self) -> FleetRecord | None:
        """What the gateways share; None before the first of them was admitted."""
        record = self._records.get("fleet")
        return record if isinstance(record, FleetRecord) else None

    @property
    def secret(self) -> str:
        """What the gateways of the fleet know one another by."""
        return "" if self.fleet is None else self.fleet.secret

    @property
    def forgotten_failbacks(self) -> int:
        """The failback epochs of deleted mirrors that are kept no more, added up."""
        found = self._sequences.get(FORGOTTEN)
        return 0 if found is None else found.last

    def get(self, key: str) -> Record | None:
        """The record of a key."""
        return self._records.get(key)

    def mirror_of(self, topic: str) -> MirrorRecord | None:
        """The mirror of a topic, whatever its link: a topic has one at most."""
        return self._by_topic.get(topic)

    def mirror_changes(self) -> MirrorChanges:
        """To be asked, from now on, what has changed: first of all that is there."""
        made = MirrorChanges({*self._by_topic, *self._failback_epochs})
        self._mirror_changes.add(made)
        return made

    def changed_at(self, key: str) -> int:
        """The offset at which the key's record was last changed (of the change's last record); -1 if there is none."""
        return self._changed_at.get(key, -1)

    def grown_at_of(self, link: str) -> int:
        """As `mirrors_grown_at`, of one link's mirrors; -1 if it never had one."""
        return self._grown_at_of.get(link, -1)

    async def read_up_to(self, offset: int) -> None:
        """Until the views hold everything up to this offset of the topic. No limit of its own.

        Raises:
            StateWentBack: the topic lost records meanwhile: the offset is one of a log that is no more.
        """
        lineage = self.lineage
        while self.applied < offset:
            self._progress.clear()
            await self._progress.wait()
            if self.lineage != lineage:
                raise StateWentBack("the state topic has lost records meanwhile; ask again", 0)

    def went_back(self, end: int) -> None:
        """The topic has lost what it had from this offset on: what comes next has offsets that were there before. The
        views stay as they are."""
        self.lineage += 1
        self.applied = min(self.applied, end - 1)
        self.mirrors_grown_at = min(self.mirrors_grown_at, self.applied)
        self._grown_at_of = {link: min(at, self.applied) for link, at in self._grown_at_of.items()}
        self._changed_at = {key: min(at, self.applied) for key, at in self._changed_at.items()}
        self._progress.set()

    def subscribe(self, subscriber: Callable[[], None]) -> None:
        """Call `subscriber` after every committed change."""
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Callable[[], None]) -> None:
        """End a `subscribe`."""
        self._subscribers.remove(subscriber)

    def apply(
        self, changes: Iterable[tuple[str, Record | None]], offset: int, offsets: Iterable[int] | None = None
    ) -> None:
        """Take in changes whose last record has this offset. Nothing, if they are in the views already.

        Args:
            offsets: each change's own, where they were not written as one: a key may be among them more than once.
        """
        if offset <= self.applied:
            return
        self.applied = offset
        unread: dict[str, None] = {}  # mirrors whose tables may have come behind them, in order
        for (key, record), at in zip(changes, repeat(offset) if offsets is None else offsets, strict=False):
            previous = self._records.pop(key, None)
            self._changed_at.pop(key, None)
            if previous is not None:
                self._forget(previous)
            if record is not None:
                self._records[key] = record
                self._changed_at[key] = at
                self._remember(record)
                if isinstance(record, MirrorRecord | ProducerTablesRecord):
                    unread[mirror_key(record.link, record.mirror_topic)] = None
            if isinstance(record, MirrorRecord) and not _mirrors_the_same(previous, record):
                self.mirrors_grown_at = max(at, self.mirrors_grown_at)
                self._grown_at_of[record.link] = max(at, self.grown_at_of(record.link))
        for key in unread:
            self._read_tables(key)
        self._progress.set()
        for subscriber in tuple(self._subscribers):
            subscriber()

    def _read_tables(self, key: str) -> None:
        """Put what a mirror's record names in the place of the names. In a change it may stand before, or behind."""
        mirror = self._records.get(key)
        if not isinstance(mirror, MirrorRecord) or not mirror.cutover.tables.are_missing:
            return
        read = with_tables_of(mirror, self._records)
        if read is not mirror:
            self._records[key] = read
            self._remember(read)

    def _remember(self, record: Record) -> None:
        self._tell(record)
        kind = type(record)
        if kind in self._below_link:
            of_links, key = self._below_link[kind]
            of_links.setdefault(record.link, {})[key(record)] = record  # type: ignore[union-attr]
        elif kind in self._by_kind:
            view, key = self._by_kind[kind]
            view[key(record)] = record
        if isinstance(record, MirrorRecord):
            self._by_topic[record.mirror_topic] = record

    def _tell(self, record: Record) -> None:
        for changes in self._mirror_changes:
            changes.note(record)

    def _forget(self, record: Record) -> None:
        self._tell(record)
        kind = type(record)
        if kind in self._below_link:
            of_links, key = self._below_link[kind]
            del of_links[record.link][key(record)]  # type: ignore[union-attr]
        elif kind in self._by_kind:
            view, key = self._by_kind[kind]
            del view[key(record)]
        if isinstance(record, MirrorRecord) and self._by_topic.get(record.mirror_topic) is record:
            del self._by_topic[record.mirror_topic]


def _mirrors_the_same(previous: Record | None, record: MirrorRecord) -> bool:
    return isinstance(previous, MirrorRecord) and previous.source_topic == record.source_topic
