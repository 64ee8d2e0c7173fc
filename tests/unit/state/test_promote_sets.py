"""How the records of a set name what changes sides together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.state.codec import encode
from gateway.state.promote_sets import NAMED, groups_among, missing_of, topics_as
from gateway.state.records import MirrorCutover, MirrorRecord


def mirrors(count: int, epoch: int = 4) -> list[MirrorRecord]:
    cutover = MirrorCutover(pause_epoch=epoch)
    return [
        MirrorRecord(link="l", source_topic=f"t{n}", mirror_topic=f"t{n}", mirror_id=7 + n, cutover=cutover)
        for n in range(count)
    ]


def test_few_are_named_one_by_one() -> None:
    names = topics_as(mirrors(NAMED))
    assert names == tuple(f"t{n}" for n in range(NAMED))
    assert missing_of((*names, "group/g"), names) == ()
    assert missing_of((*names, "group/g"), names[1:]) == ("t0",)


def test_many_have_one_name_that_says_how_many_they_are() -> None:
    many = mirrors(NAMED + 1)
    names = topics_as(many)
    assert names == ("set/7.4/65",)
    pending = [mirror.mirror_topic for mirror in many]
    assert missing_of((*names, "group/g"), pending) == ()
    assert groups_among((*names, "group/g")) == ("g",)
    assert missing_of(names, pending[1:]) == ("all but 64 of 65 topics",)
    assert missing_of(("set/of a later version",), pending) != ()


def test_no_two_sets_have_one_name() -> None:
    assert topics_as(mirrors(NAMED + 1, epoch=5)) != topics_as(mirrors(NAMED + 1))


@pytest.mark.parametrize("count", [NAMED, 5_000])
def test_the_records_of_a_set_grow_with_its_topics_and_no_faster(count: int) -> None:
    many = mirrors(count)
    names = topics_as(many)
    (sample, *_) = [replace(one, cutover=replace(one.cutover, promoted_with=names)) for one in many[:1]]
    assert len(encode(sample)) < 1_500 + 8 * NAMED
