"""The records of the state topic by kind, and the order in which they were written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from gateway.domain.gateway_records import FleetRecord, GatewayRecord, PortRecord
from gateway.domain.records import GroupRecord, LinkRecord, MirrorRecord, SequenceRecord
from gateway.domain.state_codec import Record


class StateViews:
    """Views (read only, always the latest committed): `links` by name, `mirrors` by (link, mirror topic), `groups` by
    (link, group), `ports` by node id, `sequences` and `gateways` by name. `secret`: '' before a first leader made one.

    `applied`: offset of the last record that is in the views.
    """

    def __init__(self) -> None:
        self.applied = -1
        self._records: dict[str, Record] = {}
        self._links: dict[str, LinkRecord] = {}
        self._mirrors: dict[tuple[str, str], MirrorRecord] = {}
        self._groups: dict[tuple[str, str], GroupRecord] = {}
        self._ports: dict[int, PortRecord] = {}
        self._sequences: dict[str, SequenceRecord] = {}
        self._gateways: dict[str, GatewayRecord] = {}
        self.links: Mapping[str, LinkRecord] = MappingProxyType(self._links)
        self.mirrors: Mapping[tuple[str, str], MirrorRecord] = MappingProxyType(self._mirrors)
        self.groups: Mapping[tuple[str, str], GroupRecord] = MappingProxyType(self._groups)
        self.ports: Mapping[int, PortRecord] = MappingProxyType(self._ports)
        self.sequences: Mapping[str, SequenceRecord] = MappingProxyType(self._sequences)
        self.gateways: Mapping[str, GatewayRecord] = MappingProxyType(self._gateways)
        self._subscribers: list[Callable[[], None]] = []

    @property
    def secret(self) -> str:
        """What the gateways of the fleet know one another by."""
        record = self._records.get("fleet")
        return record.secret if isinstance(record, FleetRecord) else ""

    def get(self, key: str) -> Record | None:
        """The record of a key."""
        return self._records.get(key)

    def subscribe(self, subscriber: Callable[[], None]) -> None:
        """Call `subscriber` after every committed change."""
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Callable[[], None]) -> None:
        """End a `subscribe`."""
        self._subscribers.remove(subscriber)

    def apply(self, changes: Iterable[tuple[str, Record | None]], offset: int) -> None:
        """Take in changes whose last record has this offset. Nothing, if they are in the views already."""
        if offset <= self.applied:
            return
        self.applied = offset
        for key, record in changes:
            previous = self._records.pop(key, None)
            if previous is not None:
                self._forget(previous)
            if record is not None:
                self._records[key] = record
                self._remember(record)
        for subscriber in tuple(self._subscribers):
            subscriber()

    def _remember(self, record: Record) -> None:
        match record:
            case LinkRecord():
                self._links[record.name] = record
            case MirrorRecord():
                self._mirrors[record.link, record.mirror_topic] = record
            case GroupRecord():
                self._groups[record.link, record.group] = record
            case PortRecord():
                self._ports[record.node_id] = record
            case SequenceRecord():
                self._sequences[record.name] = record
            case GatewayRecord():
                self._gateways[record.name] = record

    def _forget(self, record: Record) -> None:
        match record:
            case LinkRecord():
                del self._links[record.name]
            case MirrorRecord():
                del self._mirrors[record.link, record.mirror_topic]
            case GroupRecord():
                del self._groups[record.link, record.group]
            case PortRecord():
                del self._ports[record.node_id]
            case SequenceRecord():
                del self._sequences[record.name]
            case GatewayRecord():
                del self._gateways[record.name]
