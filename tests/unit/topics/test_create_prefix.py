"""Mirror topics of a link with a prefix: their names on each side."""

from __future__ import annotations

import pytest

from gateway.errors import BadRequest
from gateway.state.records import MirrorRecord


@pytest.mark.parametrize("names", [("clicks", ""), ("", "usa_clicks"), ("clicks", "usa_clicks")])
async def test_a_prefix_names_the_mirror_topic(plane, names):
    await plane.with_link(**{"link.prefix": "usa_"})
    plane.source.add("clicks", 2, ends=5)

    await plane.service.mirrors.create("l", *names)

    record = plane.store.mirrors["l", "usa_clicks"]
    assert (record.source_topic, record.mirror_topic) == ("clicks", "usa_clicks")
    assert record.source_topic_id == plane.source.existing["clicks"].info.topic_id
    assert record.mirror_topic_id == plane.target.existing["usa_clicks"].info.topic_id
    assert plane.target.existing["usa_clicks"].info.partitions == 2
    route = plane.routing.current.topics["usa_clicks"]
    assert (route.source_topic, route.mirror_topic) == ("clicks", "usa_clicks")


async def test_a_name_that_is_not_prefix_and_source_topic_is_refused(plane):
    await plane.with_link(**{"link.prefix": "usa_"})
    plane.source.add("clicks")

    for names in (("clicks", "clicks"), ("clicks", "eu_clicks"), ("", "clicks")):
        with pytest.raises(BadRequest, match="'usa_clicks', not "):
            await plane.service.mirrors.create("l", *names)
    with pytest.raises(BadRequest, match="internal"):
        await plane.service.mirrors.create("l", "__consumer_offsets")


async def test_two_links_mirror_topics_of_one_name_under_their_prefixes(plane):
    await plane.with_link("a", **{"link.prefix": "usa_"})
    await plane.with_link("b", **{"link.prefix": "eu_"})
    plane.source.add("clicks")

    await plane.service.mirrors.create("a", "clicks")
    await plane.service.mirrors.create("b", "clicks")

    assert set(plane.store.mirrors) == {("a", "usa_clicks"), ("b", "eu_clicks")}


async def test_a_create_under_a_prefix_that_a_crash_cut_short_is_finished(plane):
    await plane.with_link(**{"link.prefix": "usa_"})
    plane.source.add("clicks", 2)
    intent = MirrorRecord(link="l", source_topic="clicks", mirror_topic="usa_clicks", mirror_id=0, created=False)
    await plane.store.put(intent)

    await plane.service.mirrors.finish_create("l", "usa_clicks")

    assert plane.store.mirrors["l", "usa_clicks"].created
    assert set(plane.target.existing) >= {"usa_clicks"}
