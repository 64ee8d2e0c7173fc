"""Schema ids in the records of one partition's mirror: rewritten through the link's id map, or waited for. Pure.

Only for topics with `MirrorRecord.translates_ids`; all others are copied as bytes. A batch of the source goes through
`translated` before it is queued. So the queued, sent and resent bytes are the same, and the offset map knows them by
their checksum. If the map lacks an id, neither the batch nor any batch after it is queued: reading stops there until
the map has the id (`SchemaIdsMissing`), and the same offset is fetched again.

    fetched ──► translated ──► queued
                     └──► waits, fetches nothing ──► the map has the ids: fetched again
                                              └──► too long: FAILED (SCHEMA_ID_UNKNOWN)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from gateway.mirror.partition.rules.log_tail import CannotMirror
from gateway.mirror.partition.rules.opened import Item, OpeningTerms
from gateway.state.records import MirrorError
from protocol.batch.compression import TooLarge
from protocol.batch.reencode import Piece
from protocol.batch.schema_ids import ReencodedIds, SchemaIdPlaces, translated

MOST_TOLD: Final = 100
"""How many missing ids of a partition are reported; a batch may have one per record."""

_GAP_S: Final = 5.0  # longest time between two looks that counts as waiting: beyond it the link was paused


class SchemaIdsMissing(Exception):
    """A batch has ids that the map lacks. `at`: its first source offset."""

    def __init__(self, ids: frozenset[int], at: int) -> None:
        super().__init__(f"source offset {at}: {_named(ids)}")
        self.ids = ids
        self.at = at


class SchemaIdWait(NamedTuple):
    """The ids a partition waits for. `for_s`: for how many seconds, without those in which the link was paused;
    `looked`: when `for_s` was last updated, monotonic seconds."""

    ids: frozenset[int]
    at: int
    for_s: float
    looked: float

    def __str__(self) -> str:
        return (
            f"waiting for {_named(self.ids)} in the id map, which the record at source offset {self.at} or one behind "
            "it has: the schema sync is asked for it"
        )


class IdRewriter:
    """Rewrites the ids of one partition.

    Args:
        ids: returns the current map, source id -> target id.
        places: where records carry ids, of `ID_PLACES`.

    Attributes:
        ids: see above. Called on the event loop only, where the records behind the map change.
        patience_s: how long an id may be missing before the mirror fails.
        waiting: None while no id is missing.
        written: ids rewritten since the mirror began here.
    """

    __slots__ = ("_places", "ids", "patience_s", "waiting", "written")

    def __init__(self, ids: Callable[[], Mapping[int, int]], places: tuple[str, ...], patience_s: float) -> None:
        self.ids = ids
        self._places = SchemaIdPlaces.named(places)
        self.patience_s = patience_s
        self.waiting: SchemaIdWait | None = None
        self.written = 0

    @property
    def missing(self) -> tuple[int, ...]:
        """The lowest missing ids, at most `MOST_TOLD`."""
        return () if self.waiting is None else tuple(sorted(self.waiting.ids)[:MOST_TOLD])

    def translated(self, batch: memoryview, ids: Mapping[int, int], at: int, terms: OpeningTerms) -> ReencodedIds:
        """A batch of the source with the target's ids. Changes no state, so threads may call it.

        Args:
            ids: source id -> target id.
            at: the batch's first source offset, for messages.

        Raises:
            TooMuch: the batch exceeds `terms`.
            CannotMirror: it inflates to more than is opened anywhere.
            MalformedFrame: it cannot be read.
        """
        try:
            return translated(batch, ids, self._places, terms.inflated, terms.spend)
        except TooLarge as exc:
            raise terms.refusal(TooLarge(f"the batch at source offset {at}: {exc}")) from None

    def of_piece(self, piece: Piece, ids: Mapping[int, int], at: int, terms: OpeningTerms) -> Item:
        """Same as `translated`, for a piece of the slow path. Also raises SchemaIdsMissing."""
        made = self.translated(memoryview(piece.data), ids, at, terms)
        if made.unknown:
            raise SchemaIdsMissing(made.unknown, at)
        return replace(piece, data=memoryview(made.batch)), made.count

    def taken(self, made: ReencodedIds, at: int) -> memoryview:
        """The batch to queue; counts its ids. Raises SchemaIdsMissing if the map lacks one of them."""
        if made.unknown:
            raise SchemaIdsMissing(made.unknown, at)
        self.written += made.count
        return memoryview(made.batch)

    def begin_waiting(self, missing: SchemaIdsMissing, now: float) -> None:
        """Stop fetching until `look` finds the ids."""
        self.waiting = SchemaIdWait(missing.ids, missing.at, 0.0, now)

    def look(self, now: float) -> bool:
        """True when the map now has all missing ids, so that reading resumes.

        Raises:
            CannotMirror: an id has been missing for `patience_s`.
        """
        waiting = self.waiting
        if waiting is None:
            return False
        ids = self.ids()
        if all(found in ids for found in waiting.ids):
            self.waiting = None
            return True
        for_s = waiting.for_s + min(_GAP_S, max(0.0, now - waiting.looked))
        self.waiting = SchemaIdWait(
            frozenset(found for found in waiting.ids if found not in ids), waiting.at, for_s, now
        )
        if for_s >= self.patience_s:
            raise CannotMirror(
                MirrorError.SCHEMA_ID_UNKNOWN,
                f"source offset {waiting.at}: {_named(self.waiting.ids)} is not in the link's id map, for {for_s:.0f} "
                "s: register it with the source's registry, or let it pass schema.subject.filters, and repair the "
                "mirror; where these bytes are no id, create the mirror anew with other schema.translate.places",
            )
        return False


def _named(ids: frozenset[int], most: int = 5) -> str:
    first = ", ".join(map(str, sorted(ids)[:most]))
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return f"schema id{'s' if len(ids) > 1 else ''} {first}{more}"
