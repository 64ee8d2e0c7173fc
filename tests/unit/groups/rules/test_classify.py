"""Which sources are asked about a group without a record, and for which of them it waits."""

from __future__ import annotations

import pytest

from gateway.groups.rules.classify import LinkSeen, to_ask, waits_for
from gateway.groups.rules.source_gone import GONE_S, SourceSeen

GONE = SourceSeen(GONE_S, "connection refused")


def links(source: SourceSeen = SourceSeen(), *, stopped: bool = False) -> dict[str, LinkSeen]:  # noqa: B008
    """`a`, whose last mirror is of offset 5, and `b`, of offset 9."""
    return {"a": LinkSeen(5, stopped, source), "b": LinkSeen(9, False, SourceSeen())}


@pytest.mark.parametrize(
    ("not_its", "before", "asked"),
    [
        ({}, -1, ["a", "b"]),
        ({}, 5, ["b"]),  # it was let in before `b` got a mirror more
        ({}, 9, []),
        ({"a": 5}, -1, ["b"]),
        ({"a": 4, "b": 9}, -1, ["a"]),  # `a` got one more while `b` was asked
        ({"a": 6, "b": 8}, 7, ["b"]),
    ],
)
def test_only_links_that_have_a_mirror_more_since_are_asked(
    not_its: dict[str, int], before: int, asked: list[str]
) -> None:
    assert to_ask(links(), not_its, before) == asked
    assert list(waits_for(links(), not_its, before, {})) == asked


@pytest.mark.parametrize(
    ("source", "stopped", "waits"),
    [
        (GONE, True, False),
        (GONE, False, True),  # something is mirrored from it
        (SourceSeen(GONE_S - 1, "connection refused"), True, True),
        (SourceSeen(None, "credentials refused"), True, True),
        (SourceSeen(), True, True),  # a coordinator that loads
    ],
)
def test_a_source_that_is_gone_holds_nobody_once_nothing_is_mirrored_from_it(
    source: SourceSeen, stopped: bool, waits: bool
) -> None:
    found = waits_for(links(source, stopped=stopped), {"b": 9}, -1, {"a": "no answer in time"})
    assert bool(found) is waits


@pytest.mark.parametrize(
    ("stopped", "remedy"), [(False, "lockgate mirror failover TOPIC --link a"), (True, "not answered at all for 15 s")]
)
def test_why_a_group_waits_names_what_helps(stopped: bool, remedy: str) -> None:
    found = waits_for(links(stopped=stopped), {"b": 9}, -1, {"a": "no answer in time"})
    assert found["a"].startswith("no answer in time; ")
    assert remedy in found["a"]
