"""Groups that a topic promote would cut off; a source that does not say what one of them has read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.cutover.promote.unpromoted_groups import unpromoted_groups
from gateway.errors import SourceUnreachable
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.state.records import GroupRecord, GroupState, LinkRecord

LINK = LinkRecord(name="west", link_id=1, source_cluster_id="", client={}, configs={})
READS = {"readers": ["orders"], "others": ["bills"], "gated": None}
"""Group -> topics of which it has offsets; None: nobody answers for it."""


class Access:
    """A source's view of its groups."""

    def __init__(self, *groups: str) -> None:
        self._groups = groups

    async def group_ids(self) -> list[str]:
        return list(self._groups)

    async def committed_offsets(self, group: str) -> Any:
        topics = READS[group]
        if topics is None:
            raise ClusterUnavailable("gw-0:9293: no answer to OffsetFetch within 2 s")
        return {(topic, 0): 7 for topic in topics}

    async def describe_group(self, group: str) -> Any:
        return SimpleNamespace(topics=frozenset())


async def asked(*groups: str, promoted: str = "") -> list[str]:
    async def reach(_link: LinkRecord) -> Access:
        return Access(*groups)

    record = GroupRecord(link="west", group=promoted, state=GroupState.PROMOTED)
    store: Any = SimpleNamespace(groups={("west", promoted): record} if promoted else {})
    sources: Any = SimpleNamespace(reach=reach)
    return await unpromoted_groups(store, sources, LINK, ["orders"])


async def test_those_that_read_the_topic() -> None:
    assert await asked("readers", "others") == ["readers"]
    assert await asked("readers", "others", promoted="readers") == []


async def test_one_of_which_nobody_tells_is_named_with_the_way_out() -> None:
    with pytest.raises(SourceUnreachable, match=r"what group 'gated' has read .*no answer.*promote it there first, or"):
        await asked("readers", "gated")


async def test_one_that_is_promoted_here_is_not_asked_for() -> None:
    assert await asked("readers", "gated", promoted="gated") == ["readers"]
