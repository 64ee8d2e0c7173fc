"""Offsets by MirrorMaker 2's checkpoints and syncs: no record is missed, and what is called exact is the truth."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.jobs.translate.mm2_offsets import (
    Checkpoint,
    CheckpointMark,
    History,
    Mm2OffsetSync,
    Mm2Rule,
    Sync,
    decode_checkpoint,
    decode_offset_sync,
    history,
    translated,
)
from protocol.errors import MalformedFrame

LATE = 1000


def syncs(*pairs: tuple[int, int], first_ms: int = 0) -> History:
    """One a millisecond."""
    return history(Sync(*pair, first_ms + number) for number, pair in enumerate(pairs))


def at(known: History, upstream: int, downstream: int = 0, *, ms: int = LATE, once: bool = False) -> tuple[object, ...]:
    found = translated(CheckpointMark(upstream, downstream, ms), known, written_once=once)
    return found.target_offset, found.exact, found.rule


def test_by_the_syncs() -> None:
    known = syncs((10, 8), (110, 108), (300, 250))

    assert at(known, 11) == (9, True, Mm2Rule.SYNC)
    assert at(known, 60) == (9, False, Mm2Rule.AFTER_SYNC)
    assert at(known, 60, once=True) == (58, True, Mm2Rule.BETWEEN_SYNCS)
    assert at(known, 200, once=True) == (109, False, Mm2Rule.AFTER_SYNC), "the two are not equally far apart"
    assert at(known, 300) == (250, True, Mm2Rule.SYNC)
    assert at(known, 400) == (251, False, Mm2Rule.AFTER_SYNC)


def test_by_the_checkpoint_where_the_syncs_say_no_more() -> None:
    assert at(syncs((10, 8)), 3, 2) == (2, False, Mm2Rule.CHECKPOINT)
    assert at(syncs((10, 8)), 50, 30) == (30, False, Mm2Rule.CHECKPOINT)
    assert at(history(()), 50, 30) == (30, False, Mm2Rule.CHECKPOINT)
    assert translated(CheckpointMark(50, 30, LATE), history(())).why


def test_a_rewind_makes_earlier_syncs_void() -> None:
    known = syncs((10, 8), (50, 48), (40, 60), (70, 90))

    assert [sync.upstream for sync in known.syncs] == [10, 40, 70]
    assert (known.starts_ms, known.went_back_ms, known.joined) == (0, 2, (False, True))
    assert syncs((10, 8), (10, 8)).went_back_ms is None, "a producer that sent one again"


def test_a_tombstone_makes_earlier_syncs_void() -> None:
    """As it does after compaction, when they are gone."""
    known = history([Sync(10, 8, 0), None, Sync(300, 250, 1)])

    assert (known.syncs, known.starts_ms) == ((Sync(300, 250, 1),), 1)
    assert history([Sync(10, 8, 0), None]) == History()


def test_a_copy_that_was_made_anew_behind_a_checkpoint() -> None:
    """Record 1001 is the first of the new copy. At 900 the group would skip what that one has below."""
    known = syncs((950, 950), (1001, 0), (3000, 1999))

    assert at(known, 900, 900) == (0, False, Mm2Rule.BEFORE_SYNC)
    assert "created anew" in translated(CheckpointMark(900, 900, LATE), known).why
    assert at(syncs((5000, 4000)), 900, 850) == (850, False, Mm2Rule.CHECKPOINT)


def test_a_copy_that_was_made_anew_from_the_start() -> None:
    """The source has been compacted meanwhile: record 900 is at 500 now."""
    known = syncs((899, 899), (0, 0), (2000, 1100))

    assert at(known, 900, 900, ms=0) == (1, False, Mm2Rule.AFTER_SYNC)
    # Compaction has left nothing of before. Another copy had more records behind a sync than the source has.
    assert at(syncs((800, 500), (2000, 1100), first_ms=5), 900, 900, ms=0) == (501, False, Mm2Rule.AFTER_SYNC)


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (syncs((899, 899), (0, 900), (900, 1900)), "gone back since"),
        (syncs((900, 1900), (1000, 2000), first_ms=5), "older than every offset sync"),
    ],
)
def test_a_checkpoint_of_a_topic_that_was_created_anew(known: History, why: str) -> None:
    """Record 900 of the new topic is another one than that of the group."""
    found = translated(CheckpointMark(900, 900, 0), known)

    assert not found.exact
    assert why in found.why
    assert translated(CheckpointMark(900, 1900, LATE), known).exact, "one of the new topic"


@dataclass
class Mirrored:
    """A partition, its copy by a MirrorMaker 2, and what that notes. Records are (how often created, offset)."""

    now: int = 0
    created: int = 0
    end: int = 0
    read: int = 0
    copy: list[tuple[int, int]] = field(default_factory=list)
    notes: list[Sync] = field(default_factory=list)
    is_new: bool = True
    marks: list[tuple[CheckpointMark, int]] = field(default_factory=list)

    def write(self) -> None:
        self.end += 1

    def mirror(self, *, note: bool = False) -> None:
        self.now += 1
        while self.read < self.end:
            last = self.read == self.end - 1
            if self.is_new or (note and last):
                self.notes.append(Sync(self.read, len(self.copy), self.now))
            self.copy.append((self.created, self.read))
            self.read, self.is_new = self.read + 1, False

    def note(self) -> None:
        self.write()
        self.mirror(note=True)

    def restart(self) -> None:
        """Killed: the last two records are copied again."""
        self.read, self.is_new = max(0, self.read - 2), True
        self.mirror()

    def create_topic(self) -> None:
        self.created, self.end, self.read, self.is_new = self.created + 1, 0, 0, True
        self.write()
        self.mirror()

    def create_copy(self) -> None:
        self.copy, self.is_new = [], True
        self.note()

    def compact(self) -> None:
        self.notes = self.notes[-2:]

    def checkpoint(self) -> None:
        """Of a group each that stands at the last three offsets, as far as there is a translation."""
        self.now += 1
        for upstream in range(max(0, self.end - 2), self.end + 1):
            known = [sync for sync in history(self.notes).syncs if sync.upstream <= upstream]
            if known:
                downstream = known[-1].downstream + (upstream > known[-1].upstream)
                self.marks.append((CheckpointMark(upstream, downstream, self.now), self.created))


STEPS = (
    Mirrored.write,
    Mirrored.mirror,
    Mirrored.note,
    Mirrored.restart,
    Mirrored.create_topic,
    Mirrored.create_copy,
    Mirrored.compact,
    Mirrored.checkpoint,
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=25))
def test_what_is_called_exact_is_the_truth(steps: list[object]) -> None:
    scene = Mirrored()
    for step in steps:
        step(scene)  # type: ignore[operator]
    known = history(scene.notes)
    for mark, created in scene.marks:
        found = translated(mark, known)
        left = scene.copy[found.target_offset :]
        wanted = {one for one in scene.copy if one[0] == created and one[1] >= mark.upstream}
        if found.exact:
            assert created == scene.created
            assert left[:1] in ([], [(created, mark.upstream)])
        if created == scene.created and known.starts_ms is not None and known.starts_ms <= mark.written_ms:
            assert wanted <= set(left), "no record is missed"


# As Kafka's own Checkpoint and OffsetSync classes write them.
KEY = bytes.fromhex("0001 67 0004 75732e74 00000003")
VALUE = bytes.fromhex("0000 0000000000000064 0000000000000058 0002 6d64")
SYNC_KEY = bytes.fromhex("0001 74 00000003")
SYNC_VALUE = bytes.fromhex("0000000000000064 0000000000000058")


def test_a_checkpoint() -> None:
    assert decode_checkpoint(KEY, VALUE) == Checkpoint("g", "us.t", 3, 100, 88, "md")
    assert decode_checkpoint(KEY, None) is None


def test_an_offset_sync() -> None:
    assert decode_offset_sync(SYNC_KEY, SYNC_VALUE) == Mm2OffsetSync("t", 3, 100, 88)
    assert decode_offset_sync(SYNC_KEY, None) == Mm2OffsetSync("t", 3, None, None)


def test_another_version_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="version 1"):
        decode_checkpoint(KEY, pack(">h", 1) + VALUE[2:])


@given(st.binary(), st.binary())
def test_nothing_but_malformed(key: bytes, value: bytes) -> None:
    for decode in (decode_checkpoint, decode_offset_sync):
        with suppress(MalformedFrame):
            decode(key, value)


@pytest.mark.parametrize("cut", range(len(KEY)))
def test_cut_off(cut: int) -> None:
    with pytest.raises(MalformedFrame):
        decode_checkpoint(KEY[:cut], VALUE)
