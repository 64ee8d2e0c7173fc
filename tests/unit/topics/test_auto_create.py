"""Rounds of auto-create over clusters in memory: what is created, what is kept, what is shown."""

from __future__ import annotations

import json

import pytest

from gateway.errors import Conflict, NotFound, SourceUnreachable
from gateway.kafka.connection.errors import BrokerError
from gateway.operations.link_tasks import TaskState
from gateway.state.records import LinkRecord
from gateway.topics.auto_create import AutoCreated
from gateway.topics.rules.auto_create import Reason
from tests.support.control.control_plane import PROPERTIES, Plane
from tests.support.waiting import wait_until_async

ALL = json.dumps({"topicFilters": [{"name": "*", "patternType": "LITERAL", "filterType": "INCLUDE"}]})
POLICY_VIOLATION = 44


async def linked(plane: Plane, **more: str) -> LinkRecord:
    on = {"auto.create.mirror.topics.enable": "true", "auto.create.mirror.topics.filters": ALL}
    return await plane.with_link(**on, **{key.replace("_", "."): value for key, value in more.items()})


async def round_of(plane: Plane, after_s: float = 0.0) -> None:
    """One round, if one is due so many seconds later."""
    auto = plane.service.auto_create
    plane.clock_s += after_s
    await auto.run_due()
    await wait_until_async(lambda: not any(one.running for one in auto._links.values()), 5.0)


def mirrored(plane: Plane) -> list[str]:
    return sorted(topic for _, topic in plane.store.mirrors)


async def reasons(plane: Plane) -> dict[str, Reason]:
    return {one.source_topic: one.reason for one in await plane.service.auto_create.candidates("l")}


async def test_source_topics_become_mirror_topics(plane):
    for name in ("orders", "payments", "_schemas"):
        plane.source.add(name)
    await linked(plane)

    await round_of(plane)

    assert mirrored(plane) == ["orders", "payments"]
    assert set(plane.engine.running) == {("l", "orders"), ("l", "payments")}
    assert await reasons(plane) == {"_schemas": Reason.EXCLUDED_BY_DEFAULT}
    status = plane.service.auto_create.status("l")
    assert (status.state, status.last_error) == (TaskState.ACTIVE, None)
    assert plane.service.auto_create.created["l"] == 2


async def test_a_round_comes_when_the_metadata_is_too_old(plane):
    await linked(plane, metadata_max_age_ms="60000")
    await round_of(plane)
    plane.source.add("orders")
    await round_of(plane, 59.0)
    assert mirrored(plane) == []
    await round_of(plane, 1.0)
    assert mirrored(plane) == ["orders"]


async def test_a_link_that_does_not_ask_for_it_is_left_alone(plane):
    plane.source.add("orders")
    await plane.with_link()
    plane.source.calls.clear()

    await round_of(plane)

    assert (mirrored(plane), plane.source.calls) == ([], [])
    assert plane.service.auto_create.status("l").state is TaskState.NOT_CONFIGURED
    assert await reasons(plane) == {"orders": Reason.AUTO_CREATE_OFF}


async def test_the_limit_of_a_round(plane):
    for number in range(5):
        plane.source.add(f"t{number}")
    await linked(plane, auto_create_mirror_topics_limit="2")
    await round_of(plane)
    assert mirrored(plane) == ["t0", "t1"]
    assert (await reasons(plane))["t4"] is Reason.LATER_ROUND
    await round_of(plane, 300.0)
    await round_of(plane, 300.0)
    assert mirrored(plane) == ["t0", "t1", "t2", "t3", "t4"]


async def test_a_topic_of_the_target_is_not_taken_over(plane):
    """An operator's create takes an empty one over; nobody has asked for this."""
    plane.source.add("orders", 3)
    plane.target.add("orders", 3)
    await linked(plane)
    await round_of(plane)
    assert mirrored(plane) == []
    assert await reasons(plane) == {"orders": Reason.EXISTS_ON_TARGET}


async def test_what_is_refused_is_remembered_and_comes_again(plane):
    for name in ("a", "b"):
        plane.source.add(name)
    plane.target.refuse["create_topic"] = BrokerError(POLICY_VIOLATION, "no such names here")
    await linked(plane)
    await round_of(plane)

    status = plane.service.auto_create.status("l")
    assert status.state is TaskState.IN_ERROR
    assert status.last_error.message.startswith("2 topics are refused, such as 'a': ")
    assert "no such names here" in status.last_error.message
    assert await reasons(plane) == {"a": Reason.REFUSED, "b": Reason.REFUSED}

    plane.target.calls.clear()
    await round_of(plane, 300.0)
    assert plane.target.calls.count("create_topic") == 2
    plane.target.calls.clear()
    await round_of(plane, 300.0)
    assert plane.target.calls.count("create_topic") == 0, "the second pause is two rounds"

    del plane.target.refuse["create_topic"]
    await round_of(plane, 300.0)
    assert mirrored(plane) == ["a", "b"]
    assert plane.service.auto_create.status("l").state is TaskState.ACTIVE


async def test_a_source_that_does_not_answer_ends_the_round_with_the_reason(plane):
    await linked(plane)
    plane.source.add("orders")
    plane.source.down = True
    await round_of(plane)
    status = plane.service.auto_create.status("l")
    assert (status.state, status.since_ms) == (TaskState.IN_ERROR, plane.now_ms)
    assert "connection refused" in status.last_error.message
    with pytest.raises(SourceUnreachable):
        await plane.service.auto_create.candidates("l")

    plane.source.down = False
    await round_of(plane, 300.0)
    assert mirrored(plane) == ["orders"]
    assert plane.service.auto_create.status("l").last_error, "the last error is kept"


async def test_a_cluster_that_goes_away_ends_a_round_after_three_topics(plane):
    for number in range(10):
        plane.source.add(f"t{number}")

    async def gone() -> None:
        plane.source.down = True

    plane.source.before["topics"] = gone
    await linked(plane)
    await round_of(plane)
    assert plane.source.calls.count("topics") == 3
    assert plane.service.auto_create.status("l").state is TaskState.IN_ERROR


async def test_one_topic_that_gets_no_answer_does_not_hold_the_others(plane):
    for number in range(10):
        plane.source.add(f"t{number}")
    asked = 0

    async def first_only() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise TimeoutError

    plane.source.before["topics"] = first_only
    await linked(plane)
    await round_of(plane)
    assert mirrored(plane) == [f"t{number}" for number in range(1, 10)]
    assert await reasons(plane) == {"t0": Reason.REFUSED}


async def test_filters_that_change_end_the_round_and_begin_another(plane):
    for number in range(3):
        plane.source.add(f"t{number}")
    link = await linked(plane)

    async def switch_off() -> None:
        if "create_topic" in plane.target.calls and plane.store.links["l"] == link:
            off = LinkRecord(
                name="l", link_id=link.link_id, source_cluster_id=link.source_cluster_id, client=link.client
            )
            await plane.store.replace(link, off)

    plane.target.before["list_topics"] = plane.target.before["topics"] = switch_off
    await round_of(plane)
    assert len(mirrored(plane)) <= 1
    assert plane.service.auto_create.status("l").state is not TaskState.ACTIVE


async def test_an_operator_who_was_faster_is_no_refusal(plane):
    plane.source.add("orders")
    await linked(plane)

    async def by_hand() -> None:
        plane.target.before.clear()
        await plane.service.mirrors.create("l", "orders")

    plane.target.before["list_topics"] = by_hand
    await round_of(plane)
    assert mirrored(plane) == ["orders"]
    assert plane.service.auto_create.status("l").state is TaskState.ACTIVE


async def test_the_next_leader_goes_on(plane):
    """Nothing is kept but in records."""
    for name in ("a", "b", "c"):
        plane.source.add(name)
    await linked(plane, auto_create_mirror_topics_limit="2")
    await round_of(plane)
    following = Plane(plane.log.kept, clusters_of=plane)
    await following.start()
    await round_of(following)
    assert mirrored(following) == ["a", "b", "c"]
    await following.close()


async def test_a_deleted_topic_of_which_no_record_is_left_is_created_again(plane):
    plane.source.add("orders")
    await linked(plane)
    await round_of(plane)
    await plane.store.delete(plane.store.mirrors["l", "orders"])
    await round_of(plane, 300.0)
    assert await reasons(plane) == {"orders": Reason.EXISTS_ON_TARGET}, "the topic was kept"
    del plane.target.existing["orders"]
    await round_of(plane, 300.0)
    assert mirrored(plane) == ["orders"]


async def test_with_a_prefix_a_chain_is_not_followed(plane):
    for name in ("b.t", "t"):
        plane.source.add(name)
    plane.source.mirrors_there = frozenset({"b.t"})
    await linked(plane, link_prefix="a.")
    await round_of(plane)
    assert mirrored(plane) == ["a.t"]
    assert await reasons(plane) == {"b.t": Reason.MIRROR_TOPIC_ON_SOURCE}


async def test_without_a_prefix_nobody_reads_what_is_a_mirror_topic_there(plane):
    plane.source.add("t")
    await linked(plane)
    await round_of(plane)
    assert "mirror_topics" not in plane.source.calls


async def test_candidates_of_a_link_that_is_not_there(plane):
    with pytest.raises(NotFound):
        await plane.service.auto_create.candidates("nope")


async def test_what_a_deleted_link_had_is_forgotten(plane):
    await linked(plane)
    await round_of(plane)
    await plane.service.links.delete("l")
    await round_of(plane)
    assert plane.service.auto_create._links == {}
    assert plane.service.auto_create.status("l").state is TaskState.NOT_CONFIGURED


async def test_filters_are_stored_only_while_it_is_on(plane):
    off = {"auto.create.mirror.topics.enable": "false", "auto.create.mirror.topics.filters": ALL}
    await plane.service.links.create("l", {**PROPERTIES, **off})
    assert "auto.create.mirror.topics.filters" not in plane.store.links["l"].configs


async def test_a_conflict_is_the_topics_own(plane):
    for name in ("a", "b"):
        plane.source.add(name)
    await linked(plane)
    creator = plane.service.auto_create._creator
    shipped = creator.create

    async def refuses_a(link_name: str, source_topic: str = "") -> object:
        if source_topic == "a":
            raise Conflict("group 'g' is promoted")
        return await shipped(link_name, source_topic=source_topic)

    creator.create = refuses_a
    await round_of(plane)
    assert mirrored(plane) == ["b"]
    assert "group 'g' is promoted" in plane.service.auto_create.status("l").last_error.message


async def test_what_is_created_refused_and_waiting_is_counted(plane):
    for name in ("a", "b", "c", "d", "e"):
        plane.source.add(name)
    assert plane.service.auto_create.counted("l") is None
    await linked(plane, auto_create_mirror_topics_limit="2")
    await round_of(plane)
    assert plane.service.auto_create.counted("l") == AutoCreated(created=2, refused=0, waiting=3)
    (link,) = plane.service.numbers().link_numbers
    assert (link.state, link.auto_created) == ("ACTIVE", AutoCreated(created=2, refused=0, waiting=3))
    await round_of(plane, 300.0)
    assert plane.service.auto_create.counted("l") == AutoCreated(created=4, refused=0, waiting=1)
