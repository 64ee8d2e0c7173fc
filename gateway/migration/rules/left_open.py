"""What no broker tells: named with how to tell it, so that nobody takes a picture for the whole. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gateway.kafka.rules.names import is_internal
from gateway.migration.rules.snapshot import NotKnown, SourceSnapshot
from gateway.migration.rules.ties import CONNECT, STREAM, Tie, Why

_NAMED: Final = 5


def left_open(snapshot: SourceSnapshot, found: Sequence[Tie]) -> Iterator[NotKnown]:
    """Of a snapshot and its ties."""
    yield from _writers(snapshot)
    yield from _hidden(snapshot)
    yield from _readers(snapshot)
    yield from _connect(snapshot, found)
    yield from _streams(snapshot)


def _writers(snapshot: SourceSnapshot) -> Iterator[NotKnown]:
    named = {producer for one in snapshot.transactional_ids for producer in one.producer_ids}
    topics = [one for one in snapshot.topics if not is_internal(one.name)]
    idempotent = [one.name for one in topics if one.producer_ids and one.producer_ids - named]
    silent = [one.name for one in topics if one.producer_ids is not None and not one.producer_ids]
    untold = [one.name for one in topics if one.producer_ids is None]
    how = (
        "restart its producers onto the gateway: `lockgate mirror describe` shows what bypasses it; or log requests on "
        "the brokers (kafka.request.logger) for client ids and addresses"
    )
    if idempotent:
        yield NotKnown(f"who the idempotent producers of {_some(idempotent)} are: brokers keep ids, not names", how)
    if silent:
        yield NotKnown(
            f"whether anybody writes {_some(silent)}: a producer without idempotence leaves no trace, and a "
            "producer id is forgotten after producer.id.expiration.ms (a day)",
            how,
        )
    if untold:
        yield NotKnown(
            f"who writes {_some(untold)}: the source does not describe producers to this link",
            "let the link's principal READ the topics, on brokers of 2.8 or later",
        )


def _hidden(snapshot: SourceSnapshot) -> Iterator[NotKnown]:
    """A tie with a topic that the source did not name is in no set, and may bind all the same."""
    written = {name for one in snapshot.transactional_ids for name in one.open | one.logged}
    read = {name for one in snapshot.groups if one.type != "share" for name in one.topics}
    hidden = [name for name in (written | read) - {one.name for one in snapshot.topics} if not is_internal(name)]
    if hidden:
        yield NotKnown(
            f"what ties {_some(hidden)} to others: transactions or groups have it, and the source did not name it",
            "let the link's principal DESCRIBE these topics, and discover again: they may be new, too, or deleted",
        )


def _readers(snapshot: SourceSnapshot) -> Iterator[NotKnown]:
    yield NotKnown(
        "consumers that assign themselves partitions and commit nowhere (Spark, Flink): they are in no group",
        "ask their owners; offsets in checkpoints are translated by `lockgate job translate-offsets`",
    )
    patterns = [one.name for one in snapshot.groups if one.by_pattern]
    if patterns:
        yield NotKnown(
            f"which topics to come {_some(patterns, 'groups')} will read: they subscribe by a pattern",
            "discover again before each promote",
        )
    undescribed = [one for one in snapshot.groups if one.unknown]
    if undescribed:
        yield NotKnown(
            f"members and topics of {_some([one.name for one in undescribed], 'groups')}: {undescribed[0].unknown}",
            "let the link's principal DESCRIBE and READ these groups",
        )
    shares = [one.name for one in snapshot.groups if one.type == "share"]
    if shares:
        yield NotKnown(
            f"how {_some(shares, 'share groups')} would move: a gateway hides share groups from its clients",
            "end them on the source, and begin new ones on the target",
        )


def _connect(snapshot: SourceSnapshot, found: Iterable[Tie]) -> Iterator[NotKnown]:
    told = {tie.one.name for tie in found if tie.why is Why.CONNECT_INTERNAL}
    missing = [one.name for one in snapshot.groups if one.protocol_type == CONNECT and one.name not in told]
    if missing:
        yield NotKnown(
            f"the config, offset and status topics of {_some(missing, 'Connect clusters')}",
            "look for *.storage.topic in the workers' settings, and write them into the migration file",
        )
    if any(one.protocol_type == CONNECT for one in snapshot.groups):
        yield NotKnown(
            "what source connectors write, and offsets that connectors keep in the systems they talk to",
            "ask the cluster's REST API: GET /connectors?expand=info",
        )


def _streams(snapshot: SourceSnapshot) -> Iterator[NotKnown]:
    running = [one.name for one in snapshot.groups if one.protocol == STREAM or one.type == "streams"]
    if running:
        yield NotKnown(
            f"which topics {_some(running, 'Streams applications')} write beside their own, without exactly_once_v2",
            "print Topology.describe() of the application: its sinks",
        )


def _some(names: Sequence[str], what: str = "") -> str:
    """A few of them by name."""
    shown = ", ".join(sorted(names)[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{what} {shown}{more}".lstrip()
