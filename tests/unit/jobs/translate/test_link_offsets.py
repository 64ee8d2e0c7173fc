"""The jobs translate as the gateway does: over random histories of a topic, each offset of it."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import Conflict
from gateway.jobs.audit.asked_periods import is_live, periods
from gateway.jobs.translate import by_link
from gateway.jobs.translate.link_offsets import REFUSED, LinkOffsets, TargetOffset, why_not
from gateway.mirror.offset_map.rules.offset_map import OffsetMap, TranslationRule
from gateway.mirror.rules.period import period_of
from gateway.operations.offset_translation import OffsetMaps, OffsetsBetween
from gateway.state.records import CarriedOffset, MirrorMode, MirrorRecord, MirrorState, PartitionStart, SourceOffset
from tests.audit_mutations.history import STATES, History, history
from tests.support.control.mirror_records import changed, mirror_record

moves = st.lists(
    st.tuples(st.sampled_from(["write", "mirror", "turn", "fail", "trim"]), st.integers(1, 4)), max_size=24
)


def job_of(made: History) -> LinkOffsets:
    """What a job knows of it."""
    facts = made.facts()
    assert not isinstance(facts.maps, str)
    return LinkOffsets(
        records={"t": made.record},
        maps={("t", 0): tuple(facts.maps)},
        target_ends={("t", 0): made.target.log_end},
        chains={"t": periods(made.record)},
    )


def gateway_of(made: History) -> OffsetsBetween:
    """The gateway's own, over the same record and maps."""
    chain = periods(made.record)
    kept = list(zip(chain, made.maps[-len(chain) :], strict=True)) if made.mode is MirrorMode.TRANSLATE else []

    async def offset_maps(mirror: MirrorRecord) -> Sequence[OffsetMap]:
        return [next(one for period, one in kept if period_of(period, 1).number == period_of(mirror, 1).number)]

    records: Any = SimpleNamespace(
        mirror=lambda link, topic: made.record,
        store=SimpleNamespace(mirrors={("l", "t"): made.record}),
        now_ms=lambda: 0,
    )
    progress: Any = SimpleNamespace(position=lambda topic, partition: made.target.log_end)
    return OffsetMaps(records, progress, offset_maps).between("l")


def by_gateway(made: History, offset: int) -> TargetOffset:
    """What the gateway would commit for a group that stands there; refused, or waited for, as it says."""
    between = gateway_of(made)
    asked = SourceOffset("t", 0, offset)

    async def ask() -> tuple[CarriedOffset, int | None]:
        (carried,) = await between.to_target([asked])
        return carried, between.mirrored(asked, await between.maps(["t"]))

    try:
        carried, mirrored = asyncio.run(ask())
    except Conflict as exc:
        return TargetOffset(None, REFUSED, str(exc))
    if mirrored is not None and offset > mirrored:
        return TargetOffset(carried.target_offset, str(TranslationRule.BEYOND_END))  # `promote_group` waits
    return TargetOffset(carried.target_offset, carried.rule)


def lived(mode: MirrorMode, steps: list[tuple[str, int]]) -> History:
    made = History(mode, transactional=mode is MirrorMode.TRANSLATE)
    for what, number in steps:
        stopped = made.record.state is MirrorState.STOPPED
        if what == "write":
            made.write(number, 3)
        elif what == "trim":
            made.source.start = max(made.source.start, made.source.log_end * number // 8)
        elif what == "fail" and not stopped and not made.record.is_reverse:
            made.fail_over()
        elif what == "turn" and made.record.is_reverse:
            made.home()
        elif what == "turn" and stopped and not any(made.record.cutover.not_mirrored):
            made.reverse()
        elif what == "turn" and not stopped:
            made.promote()
        elif is_live(made.record):
            made.mirror()
    return made


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([MirrorMode.PRESERVE, MirrorMode.TRANSLATE]), moves)
def test_the_same_as_the_gateway(mode: MirrorMode, steps: list[tuple[str, int]]) -> None:
    made = lived(mode, steps)
    job = pickle.loads(pickle.dumps(job_of(made)))
    for offset in range(max(made.source.log_end, made.target.log_end) + 2):
        theirs = by_gateway(made, offset)
        mine = job.find("t", 0, offset)
        assert mine.rule == theirs.rule, offset
        if theirs.rule != TranslationRule.BEYOND_END:
            assert mine == theirs, offset


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("mode", list(MirrorMode))
def test_what_is_exact_is_the_next_record(mode: MirrorMode, state: str) -> None:
    """Whoever reads on at the target offset gets what it would have got on the source."""
    made = history(mode, state)
    job = job_of(made)
    source, target = made.source.records(), made.target.records()
    both = {one.timestamp for one in source} & {one.timestamp for one in target}
    for offset in range(made.source.log_end + 1):
        found = job.find("t", 0, offset)
        if found.rule not in (TranslationRule.EXACT, TranslationRule.NEXT_RECORD):
            continue
        here = next((one.timestamp for one in source if one.offset >= offset and one.timestamp in both), None)
        there = next((one.timestamp for one in target if one.offset >= (found.target_offset or 0)), None)
        if here is not None:
            assert there == here, (offset, found)


def promoted_transactional() -> tuple[MirrorRecord, OffsetMap]:
    """Breakpoints (0, 0), (11, 10); cut over at target offset 19, source offset 21; clients write on to 119."""
    record = mirror_record(
        link="l",
        source_topic="t",
        mirror_topic="t",
        mirror_id=1,
        starts=(PartitionStart(0, -1),),
        mode=MirrorMode.TRANSLATE,
        state=MirrorState.STOPPED,
        stopped_at=(21,),
        stopped_copy_at=(19,),
    )
    return record, OffsetMap([(0, 0), (11, 10)], end=19, read_to=21)


def find(record: MirrorRecord, known: OffsetMap | None, offset: int, end: int) -> TargetOffset:
    maps = () if known is None else (known,)
    chains = {"t": (record,)}
    return LinkOffsets(records={"t": record}, maps={("t", 0): maps}, target_ends={("t", 0): end}, chains=chains).find(
        "t", 0, offset
    )


def test_the_end_of_a_promoted_topic_is_its_cutover() -> None:
    record, known = promoted_transactional()
    assert find(record, known, 21, 119) == (19, "exact", "")


def test_an_offset_beyond_a_failover_is_not_exact() -> None:
    record, _ = promoted_transactional()
    record = changed(
        record, mode=MirrorMode.PRESERVE, stopped_at=(900,), stopped_copy_at=(900,), not_mirrored=(100,),
        starts=(PartitionStart(0, 0),),
    )  # fmt: skip
    assert find(record, None, 1000, 1100) == (900, "beyond_end", "")
    assert find(record, None, 900, 1100) == (900, "exact", "")


def test_what_is_older_than_anybody_remembers_is_refused() -> None:
    record, _ = promoted_transactional()
    home = changed(
        record, state=MirrorState.ACTIVE, failback_epoch=1, stopped_at=(), stopped_copy_at=(),
        handed_over_at=(1950,), handed_over_from=(2160,),
    )  # fmt: skip
    found = find(home, OffsetMap([(2160, 1950)], end=1950, read_to=2160), 5, 1950)
    assert (found.target_offset, found.rule) == (None, REFUSED)
    assert "older than the change of sides at 2160" in found.why


def test_a_map_that_cannot_be_read_and_a_partition_that_is_not_there() -> None:
    record, _ = promoted_transactional()
    job = LinkOffsets(
        records={"t": record}, maps={("t", 0): "its offset map cannot be read: x"}, target_ends={("t", 0): 9},
        chains={"t": (record,)},
    )  # fmt: skip
    assert job.find("t", 0, 1) == (None, REFUSED, "its offset map cannot be read: x")
    assert job.find("t", 1, 1).rule == "not_mirrored"
    assert job.find("u", 0, 1).rule == "not_mirrored"


@pytest.mark.parametrize(
    ("change", "ids", "said"),
    [
        ({}, ("s", "t"), ""),
        ({}, ("", ""), ""),
        ({}, ("other", "t"), "the topic on the source was created anew: its id is other, the mirror's is s"),
        ({}, ("s", "other"), "the topic on the target was created anew: its id is other, the mirror's is t"),
        ({"state": MirrorState.FAILED}, ("s", "t"), "mirror topic 't' has FAILED"),
    ],
)
def test_a_copy_that_may_not_go_with_the_source(change: dict[str, Any], ids: tuple[str, str], said: str) -> None:
    record, _ = promoted_transactional()
    live = {"state": MirrorState.ACTIVE, "mode": MirrorMode.PRESERVE, "stopped_at": (), "stopped_copy_at": ()}
    record = changed(record, source_topic_id="s", mirror_topic_id="t", **{**live, **change})
    assert why_not(record, *ids).startswith(said)
    assert bool(why_not(record, *ids)) == bool(said)


def test_nothing_is_exact_in_a_topic_that_is_barred() -> None:
    record, known = promoted_transactional()
    job = LinkOffsets(
        records={"t": record}, maps={("t", 0): (known,)}, target_ends={("t", 0): 119}, chains={"t": (record,)},
        barred={"t": "its mirror has FAILED"},
    )  # fmt: skip
    assert job.find("t", 0, 21) == (None, REFUSED, "its mirror has FAILED")


async def test_both_topics_are_looked_at() -> None:
    """Whether they are still those that are mirrored, under the names that each cluster has for them."""
    record, _ = promoted_transactional()
    record = changed(record, mirror_topic="west.t", source_topic_id="s", mirror_topic_id="t")

    def having(topic: str, topic_id: str) -> Any:
        async def refresh(topics: tuple[str, ...]) -> Any:
            assert topics == (topic,)
            return SimpleNamespace(topics={topic: SimpleNamespace(id_text=topic_id)})

        return SimpleNamespace(refresh=refresh)

    assert await by_link._barred(having("t", "s"), having("west.t", "t"), {"t": record}) == {}
    found = await by_link._barred(having("t", "s"), having("west.t", "anew"), {"t": record})
    assert found == {"t": "the topic on the target was created anew: its id is anew, the mirror's is t"}
