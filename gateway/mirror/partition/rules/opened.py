"""Batches that must be opened: how much of that happens on the event loop, and how much in a thread. Pure.

Most batches are copied as bytes. Where schema ids are rewritten, or a batch cannot stay as it is, its records are read
one by one, and anyone who may write to one topic of the source decides how many they are and how much they inflate to.
So the event loop does a limited amount of this per fetch answer (`Allowance`). A thread opens the rest of the answer;
then reading resumes with the thread's result (`Opened`), in the same order and by the same rules. The partition fetches
nothing meanwhile. A batch that inflates to more than `MOST_INFLATED` is a bomb, and fails the mirror.

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
"""Records read on the event loop, for all partitions of one fetch answer: some six milliseconds."""
LOOP_INFLATED: Final = 2 << 20
"""Largest decompressed size of a batch, in bytes, on the event loop."""
MOST_INFLATED: Final = 64 << 20
"""Largest decompressed size anywhere: a producer's batch of a megabyte at a ratio of 64."""


class TooMuch(Exception):
    """More work than the event loop allows."""


class Allowance:
    """How many records may still be read on the event loop for one fetch answer."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = LOOP_UNITS

    def refill(self) -> None:
        """The next answer begins."""
        self.left = LOOP_UNITS

    def spend(self, count: int) -> None:
        """See `Spend`. Raises TooMuch."""
        self.left -= count
        if self.left < 0:
            raise TooMuch


class OpeningTerms(NamedTuple):
    """Limits for opening batches: `inflated` bytes at most; `spend` counts the work."""

    inflated: int
    spend: Spend

    def refusal(self, found: TooLarge) -> Exception:
        """The exception for a larger batch: TooMuch on the event loop, CannotMirror beyond every limit."""
        if self.inflated < MOST_INFLATED:
            return TooMuch()
        return CannotMirror(
            MirrorError.UNSUPPORTED_MESSAGE_FORMAT,
            f"{found}: such a batch is not opened. Where the topic's schema ids need not be written anew, and its log "
            "has no gaps, create the mirror without schema.translate.places: then it is copied as it is",
        )


def on_the_loop(allowance: Allowance | None) -> OpeningTerms:
    """The terms of the event loop; None: no limit but `MOST_INFLATED`."""
    return beside(unlimited) if allowance is None else OpeningTerms(LOOP_INFLATED, allowance.spend)


def beside(spend: Spend) -> OpeningTerms:
    """The terms of a thread."""
    return OpeningTerms(MOST_INFLATED, spend)


Item = tuple[Piece | Skip, int]
"""What to append next, and how many ids were rewritten in it."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The rest of a fetch answer, as opened by a thread.

    `batches`: by first source offset, where only the ids of a batch change. `items`: for the slow path; `error`: raised
    after the last item.
    """

    batches: Mapping[int, ReencodedIds | Exception] = field(default_factory=dict)
    items: Sequence[Item] | None = None
    error: Exception | None = None

    def again(self) -> Iterator[Item]:
        """The items, then the error is raised."""
        yield from self.items or ()
        if self.error is not None:
            raise self.error


class Beside(Exception):
    """Reading can resume only after `work` was done in a thread."""

    def __init__(self, work: Callable[[OpeningTerms], Opened]) -> None:
        super().__init__("the rest of a fetch answer is opened in a thread")
        self.work = work
