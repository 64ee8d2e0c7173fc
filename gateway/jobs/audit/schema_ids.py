"""Topics whose mirror writes schema ids anew: the source's records are compared as the mirror had to copy them. Pure.

A task translates the source's batches through the link's id map before it compares them, by the mirror's own rule
(`protocol/batch/schema_ids.py`). The map is read after the end of the copy was, so it has every id below that. One that
it lacks all the same is counted (`Sums.unknown_ids`), and the audit is INCOMPLETE at best: nothing vouches for what its
record should be. Where the target's registry has two ids for one schema, the lower one counts on the target, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.jobs.audit.side import BatchFeed, LogBatch
from protocol.batch.header import read_batch_header
from protocol.batch.schema_ids import SchemaIdPlaces, translated

MOST_TOLD: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class IdTranslation:
    """Of one topic. `ids`: source id -> target id; `same`: target id -> the lower one of the same schema; `places`: of
    `ID_PLACES`."""

    ids: Mapping[int, int]
    same: Mapping[int, int] = field(default_factory=dict)
    places: tuple[str, ...] = ()


class ReencodedFeed:
    """A log as it is to be compared.

    Args:
        unknown: gets ids of the source that are not in the map, up to `MOST_TOLD`; None for the target's log, where
            every id stands for itself unless `ids` says otherwise.
    """

    def __init__(
        self, feed: BatchFeed, ids: Mapping[int, int], places: tuple[str, ...], unknown: set[int] | None
    ) -> None:
        self._feed = feed
        self._ids = ids
        self._places = SchemaIdPlaces.named(places)
        self._unknown = unknown

    @property
    def log_start(self) -> int:
        """As far as reading has told."""
        return self._feed.log_start

    @log_start.setter
    def log_start(self, value: int) -> None:
        self._feed.log_start = value

    def __iter__(self) -> Iterator[LogBatch]:
        for batch in self._feed:
            if batch.is_aborted or batch.header.is_control:
                yield batch
                continue
            made = translated(batch.data, self._ids, self._places)
            if self._unknown is not None:
                self._unknown.update(sorted(made.unknown)[: max(0, MOST_TOLD - len(self._unknown))])
            if not made.count:
                yield batch
                continue
            data = memoryview(made.batch)
            yield LogBatch(read_batch_header(data), batch.is_aborted, data)


def as_compared(feed: BatchFeed, *, is_source: bool, ids: IdTranslation, unknown: set[int]) -> BatchFeed:
    """One log of a topic whose ids are written anew."""
    if is_source:
        return ReencodedFeed(feed, ids.ids, ids.places, unknown)
    return ReencodedFeed(feed, ids.same, ids.places, None) if ids.same else feed
