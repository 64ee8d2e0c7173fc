"""The lists of a mirror's record that have one entry per partition. Pure.

Such a list is whole, or it is empty and says that there is nothing of its kind (no cutover, nothing handed over). Any
other length is an error where the list is read: an entry that is not there has no value that could be taken instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from gateway.state.producer_entries import PackedProducers
from gateway.state.producer_tables import ProducerTables, ProducerTablesRecord, table_key
from gateway.state.records import LostRecords, MirrorMode, MirrorRecord, PartitionStart

_T = TypeVar("_T")


class WrongLength(ValueError):
    """A list of a mirror's record has not one entry per partition."""


def of_each(record: MirrorRecord, found: tuple[_T, ...], name: str) -> tuple[_T, ...]:
    """`found`, a list of the record, an entry per partition.

    Raises:
        WrongLength: it has more or fewer; the message says `name`.
    """
    if len(found) != len(record.starts):
        raise WrongLength(
            f"the record of mirror topic '{record.mirror_topic}' has {len(found)} entries in {name}, the topic "
            f"{len(record.starts)} partitions: how its logs belong together is not known; delete the mirror and create "
            "it anew"
        )
    return found


def of_each_or_none(record: MirrorRecord, found: tuple[_T, ...], name: str) -> tuple[_T, ...]:
    """As `of_each`; empty where the record has nothing of the kind."""
    return of_each(record, found, name) if found else ()


def tables_of(record: MirrorRecord) -> tuple[PackedProducers, ...]:
    """The producer tables of the last cutover, an entry per partition; empty where nothing was handed over.

    Raises:
        WrongLength: they are not whole, or the records that have them were not found.
    """
    tables = record.cutover.tables
    if tables.are_missing:
        raise WrongLength(
            f"the state topic lacks producer tables of mirror topic '{record.mirror_topic}', which its record names: a "
            "batch that was sent again over the cutover cannot be told from a new one"
        )
    return of_each_or_none(record, tables, "producers")


def with_tables_of(record: MirrorRecord, stored: Mapping[str, object]) -> MirrorRecord:
    """The record with what it names of producer tables; as it is while some of that is not there.

    Args:
        stored: the records of the state topic, by key.
    """
    names = record.cutover.tables.names
    if not record.cutover.tables.are_missing:
        return record
    found = (stored.get(table_key(record.link, record.mirror_topic, name)) for name in names)
    pieces = [one.tables for one in found if isinstance(one, ProducerTablesRecord)]
    if len(pieces) < len(names):
        return record
    tables = ProducerTables((table for piece in pieces for table in piece), names)
    return replace(record, cutover=replace(record.cutover, producers=tables))


def handed_over(record: MirrorRecord) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(the copy's log ends when the present mirror period began, the origin's); None on the first mirror period.

    Raises:
        WrongLength: they are not whole.
    """
    failback = record.failback
    if not failback.handed_over_at:
        return None
    return (
        of_each(record, failback.handed_over_at, "handed_over_at"),
        of_each(record, failback.handed_over_from, "handed_over_from"),
    )


def stopped(record: MirrorRecord) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(the origin's log ends at the cutover, the copy's); None without one.

    Raises:
        WrongLength: they are not whole.
    """
    cutover = record.cutover
    if not cutover.stopped_at:
        return None
    return (
        of_each(record, cutover.stopped_at, "stopped_at"),
        of_each(record, cutover.stopped_copy_at, "stopped_copy_at"),
    )


def grown(record: MirrorRecord, partitions: int) -> MirrorRecord:
    """The record when its topic has so many partitions: those that are new have nothing behind them."""
    added = partitions - len(record.starts)
    if added <= 0:
        return record
    return replace(
        record,
        starts=record.starts + (PartitionStart(0, 0),) * added,
        lost=record.lost and record.lost + (LostRecords(0, 0),) * added,
        cutover=record.cutover.grown(added),
        failback=record.failback.grown(added),
    )


# -- records of older versions ---------------------------------------------------------------------------------------


def with_copy_ends(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of a record as older versions wrote it, with the copy's ends: they left them out where offsets are
    equal. What cannot be known is left as it is: no record is made of it."""
    equal = values.get("mode", MirrorMode.PRESERVE) is MirrorMode.PRESERVE
    stopped_at, began_at = values.get("stopped_at"), values.get("handed_over_at")
    found = dict(values)
    if stopped_at and not values.get("stopped_copy_at") and equal:
        found["stopped_copy_at"] = stopped_at
    if began_at and not values.get("handed_over_from") and (equal or not any(began_at)):
        found["handed_over_from"] = began_at
    return found


def of_this_version(record: MirrorRecord) -> MirrorRecord:
    """A record as older versions wrote it, which did not lengthen lists when partitions were added; one of this version
    is not changed."""
    cutover, failback = record.cutover, record.failback
    if missing := _missing(record, cutover.stopped_at):
        none = (0,) * missing
        cutover = replace(cutover, stopped_at=cutover.stopped_at + none, stopped_copy_at=cutover.stopped_copy_at + none)
    if missing := _missing(record, cutover.producers):
        cutover = replace(cutover, producers=cutover.producers + (PackedProducers(),) * missing)
    if missing := _missing(record, failback.handed_over_at):
        none = (0,) * missing
        failback = replace(
            failback,
            handed_over_at=failback.handed_over_at + none,
            handed_over_from=failback.handed_over_from + none,
        )
    if cutover is record.cutover and failback is record.failback:
        return record
    return replace(record, cutover=cutover, failback=failback)


def _missing(record: MirrorRecord, found: tuple[object, ...]) -> int:
    return max(0, len(record.starts) - len(found)) if found else 0
