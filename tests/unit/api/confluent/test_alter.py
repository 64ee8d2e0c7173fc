"""Verbs on several mirror topics: a result for each, whatever became of the others; and what asking again does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.api.confluent.alter import VERBS
from gateway.errors import Conflict
from gateway.state.records import MirrorDirection, MirrorState
from tests.support.control.confluent_shapes import ALTERED, assert_shape, list_of
from tests.support.control.mirror_records import changed
from tests.support.waiting import wait_until_async
from tests.unit.api.confluent.test_links import refused


def named(*topics):
    return {"mirror_topic_names": list(topics)}


def results(answer):
    """topic -> error_code, of an answer that must have Confluent's shape."""
    assert answer.status_code == 200, answer.text
    assert_shape(answer.json(), list_of("KafkaPromoteMirror", ALTERED))
    return {each["mirror_topic_name"]: each["error_code"] for each in answer.json()["data"]}


async def readable(plane, *topics):
    """As after the padding: what can be read can be failed over."""
    for topic in topics:
        await plane.by_hand(replace(plane.store.mirrors["l", topic], readable=True))


async def test_each_topic_has_its_own_result(api, plane):
    await plane.with_mirror("a")
    await plane.with_mirror("b")
    await plane.service.mirrors.pause("l", "b")

    answer = await api.post("/links/l/mirrors:pause", json=named("a", "b", "nope", "a"))
    assert results(answer) == {"a": None, "b": 400, "nope": 40403}
    data = answer.json()["data"]
    assert data[0]["metadata"]["self"] == "http://gw:8642/kafka/v3/clusters/T/links/l/mirrors/a"
    assert "is already PAUSED" in data[1]["error_message"]
    assert plane.state("a") is plane.state("b") is MirrorState.PAUSED


async def test_promoted_topics_are_one_set_without_those_that_cannot_be(api, plane):
    for topic in ("a", "b", "c"):
        await plane.with_mirror(topic)
    await plane.service.mirrors.pause("l", "b")
    answer = await api.post("/links/l/mirrors:promote", json=named("a", "b", "c"))
    assert results(answer) == {"a": None, "b": 400, "c": None}
    assert plane.promoters.asked == [("l", ("a", "c"), False)]


async def test_what_refuses_the_set_is_told_of_each(api, plane):
    await plane.with_mirror("a")
    await plane.with_mirror("b")
    plane.promoters.refusal = Conflict("group g reads on the source")
    answer = await api.post("/links/l/mirrors:promote", json=named("a", "b"))
    assert results(answer) == {"a": 40002, "b": 40002}
    assert plane.promoters.asked == []


@pytest.mark.parametrize("verb", sorted(VERBS))
async def test_validate_only_changes_nothing(api, plane, verb):
    for topic in ("active", "paused", "stopped"):
        await plane.with_mirror(topic)
    await plane.service.mirrors.pause("l", "paused")
    await plane.service.mirrors.promote("l", ["stopped"])
    await wait_until_async(lambda: plane.state("stopped") is MirrorState.STOPPED)
    await readable(plane, "active", "paused")
    before = dict(plane.store.mirrors)

    found = results(
        await api.post(f"/links/l/mirrors:{verb}?validate_only=true", json=named("active", "paused", "stopped"))
    )
    assert dict(plane.store.mirrors) == before
    fits = {
        "promote": {"active"},
        "pause": {"active"},
        "resume": {"paused"},
        "failover": {"active", "paused"},
        "reverse-and-start-mirror": set(),  # one is to be promoted first, one is STOPPED: not in one request
        "reverse-and-pause-mirror": set(),
    }
    for topic, code in found.items():
        if verb in fits:
            assert (code is None) == (topic in fits[verb]), (topic, code)


@pytest.mark.parametrize(("topic", "code"), [("active", None), ("stopped", None), ("paused", 400)])
async def test_a_reverse_would_begin(api, plane, topic, code):
    await plane.with_mirror(topic)
    if topic == "paused":
        await plane.service.mirrors.pause("l", topic)
    if topic == "stopped":
        await plane.service.mirrors.promote("l", [topic])
        await wait_until_async(lambda: plane.state(topic) is MirrorState.STOPPED)
    answer = await api.post("/links/l/mirrors:reverse-and-start-mirror?validate_only=true", json=named(topic))
    assert results(answer) == {topic: code}


async def test_a_promote_of_a_paused_link_would_not_begin(api, plane):
    await plane.with_mirror("a")
    await plane.service.link_updates.pause("l")
    answer = await api.post("/links/l/mirrors:promote?validate_only=true", json=named("a"))
    assert results(answer) == {"a": 40002}
    assert "link 'l' is paused" in answer.json()["data"][0]["error_message"]


@pytest.mark.parametrize(
    ("verb", "after"),
    [("pause", MirrorState.PAUSED), ("promote", MirrorState.STOPPED), ("failover", MirrorState.STOPPED)],
)
async def test_asked_again_nothing_changes(api, plane, verb, after):
    await plane.with_mirror("a")
    await readable(plane, "a")
    assert results(await api.post(f"/links/l/mirrors:{verb}", json=named("a"))) == {"a": None}
    await wait_until_async(lambda: plane.state("a") is after)
    before = plane.store.mirrors["l", "a"]
    assert results(await api.post(f"/links/l/mirrors:{verb}", json=named("a"))) == {"a": 400}
    assert plane.store.mirrors["l", "a"] == before


async def test_a_promote_never_takes_a_topic_home(api, plane):
    """The topic is the source of its mirror then, as Confluent has it: a promote of it has no other meaning here."""
    record = await plane.with_mirror("a")
    await plane.by_hand(changed(record, direction=MirrorDirection.REVERSE, stopped_at=(100,) * 3))
    for query in ("", "?validate_only=true"):
        answer = await api.post(f"/links/l/mirrors:promote{query}", json=named("a"))
        assert results(answer) == {"a": 400}
        assert "is written on the target already" in answer.json()["data"][0]["error_message"]
    assert plane.promoters.asked == []


async def test_names_by_pattern(api, plane):
    for topic in ("a.1", "a.2", "b"):
        await plane.with_mirror(topic)
    answer = await api.post("/links/l/mirrors:pause", json={"mirror_topic_name_pattern": r"a\..*"})
    assert results(answer) == {"a.1": None, "a.2": None}
    assert plane.state("b") is MirrorState.ACTIVE


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "either mirror_topic_names or"),
        ({"mirror_topic_names": []}, "0 topics"),
        ({"mirror_topic_names": ["a"], "mirror_topic_name_pattern": "a"}, "either"),
        ({"mirror_topic_name_pattern": "z.*"}, "no mirror topic of link 'l' is named so"),
        ({"mirror_topic_name_pattern": "(a+)+"}, "not made of"),
    ],
)
async def test_what_names_no_topics(api, plane, body, words):
    await plane.with_mirror("a")
    refused(await api.post("/links/l/mirrors:pause", json=body), 400, 40002, words)
    assert plane.state("a") is MirrorState.ACTIVE


async def test_a_link_that_does_not_exist(api):
    refused(await api.post("/links/x/mirrors:pause", json=named("a")), 404, 404, "link 'x' does not exist")
