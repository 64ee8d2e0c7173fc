"""Batches that have to be opened: how much of that is done on the event loop, and what is done beside it. Pure.

Most batches are copied as bytes. Where ids of schemas are written anew, or a batch cannot stay as it is, its records
are looked at one by one, and whoever may write one topic of the source decides how many they are and how much they
inflate to. So on the event loop only so much is done for one fetch answer (`Allowance`). What is more is done in a
thread, for the rest of that answer; then the answer is read on with what the thread has made (`Opened`), in the same
order and by the same rules. The partition fetches nothing meanwhile. A batch that inflates to more than `MOST_INFLATED`
is a bomb, and the mirror fails with it.

    fetched ──► opened ──► queued
                  └──► TooMuch ──► WorkBeside, in a thread ──► the same answer again, with Opened ──► queued
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.mirror.partition.rules.log_tail import CannotMirror
from gateway.state.records import MirrorError
from protocol.batch.compression import TooLarge
from protocol.batch.reencode import Piece, Skip
from protocol.batch.schema_ids import ReencodedIds
from protocol.batch.work import Spend, unlimited

LOOP_UNITS: Final = 4_096
"""Records that are looked at on the event loop, for all partitions of one fetch answer: some six milliseconds."""
LOOP_INFLATED: Final = 2 << 20
"""Bytes that a batch may have there when decompressed."""
MOST_INFLATED: Final = 64 << 20
"""And anywhere. A producer's batch of a megabyte has that at a ratio of 64."""


class TooMuch(Exception):
    """More than may be done on the event loop."""


class Allowance:
    """What may still be done on the event loop for one fetch answer."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = LOOP_UNITS

    def refill(self) -> None:
        """Another answer."""
        self.left = LOOP_UNITS

    def spend(self, count: int) -> None:
        """See `Spend`. Raises TooMuch."""
        self.left -= count
        if self.left < 0:
            raise TooMuch


class OpeningTerms(NamedTuple):
    """By which batches are opened: `inflated` bytes at most, and `spend` is told of the work."""

    inflated: int
    spend: Spend

    def refusal(self, found: TooLarge) -> Exception:
        """What follows from a batch that is larger."""
        if self.inflated < MOST_INFLATED:
            return TooMuch()
        return CannotMirror(
            MirrorError.UNSUPPORTED_MESSAGE_FORMAT,
            f"{found}: such a batch is not opened. Where the topic's schema ids need not be written anew, and its log "
            "has no gaps, create the mirror without schema.translate.places: then it is copied as it is",
        )


def on_the_loop(allowance: Allowance | None) -> OpeningTerms:
    """Those of the event loop; None: nobody waits."""
    return beside(unlimited) if allowance is None else OpeningTerms(LOOP_INFLATED, allowance.spend)


def beside(spend: Spend) -> OpeningTerms:
    """Those of a thread beside it."""
    return OpeningTerms(MOST_INFLATED, spend)


Item = tuple[Piece | Skip, int]
"""What is to be appended next, and how many ids were written anew in it."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a thread has made of the rest of a fetch answer.

    `batches`: by their first source offset, where they stay as they are but for their ids. `items`: where they do not;
    `error`: what comes behind the last one.
    """

    batches: Mapping[int, ReencodedIds | Exception] = field(default_factory=dict)
    items: Sequence[Item] | None = None
    error: Exception | None = None

    def again(self) -> Iterator[Item]:
        """`items`, then the error."""
        yield from self.items or ()
        if self.error is not None:
            raise self.error


class Beside(Exception):
    """What is to be done in a thread before reading can go on."""

    def __init__(self, work: Callable[[OpeningTerms], Opened]) -> None:
        super().__init__("the rest of a fetch answer is opened in a thread")
        self.work = work
