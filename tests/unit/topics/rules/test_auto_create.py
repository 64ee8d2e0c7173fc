"""Which source topics become mirror topics by themselves, and the reason of every other one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.kafka.view import ListedTopic
from gateway.state.link_config import LinkConfig, parse
from gateway.topics.rules.auto_create import (
    Candidate,
    Memory,
    Reason,
    Scene,
    asked_for,
    cadence_s,
    plan_round,
    why_created_again,
)

ALL = ("*", "LITERAL", "INCLUDE")


def config(*filters: tuple[str, str, str], **more: str) -> LinkConfig:
    keys = ("name", "patternType", "filterType")
    text = json.dumps({"topicFilters": [dict(zip(keys, one, strict=True)) for one in filters]})
    on = {"auto.create.mirror.topics.enable": "true", "auto.create.mirror.topics.filters": text}
    return parse({**(on if filters else {}), **{key.replace("_", "."): value for key, value in more.items()}})


def topics(*names: str) -> list[ListedTopic]:
    return [ListedTopic(name, f"id of {name}", internal=False, readable=True) for name in sorted(names)]


def scene(*names: str, **more: object) -> Scene:
    made = Scene(link="west", config=config(ALL), source=topics(*names), mirrored={})
    return replace(made, **more)  # type: ignore[arg-type]  # fields by name


def reasons(of: Scene) -> dict[str, Reason]:
    return {one.source_topic: one.reason for one in plan_round(of).candidates}


def only(of: Scene) -> Candidate:
    (one,) = plan_round(of).candidates
    return one


def test_everything_that_nobody_mirrors():
    found = plan_round(scene("a", "b", "c", mirrored={"b": "west"}))
    assert found.create == ("a", "c")
    assert [(one.source_topic, one.mirror_topic, one.reason) for one in found.candidates] == [
        ("a", "a", Reason.NEXT_ROUND),
        ("c", "c", Reason.NEXT_ROUND),
    ]


def test_an_exclude_wins_over_an_include():
    filters = config(("foo", "PREFIXED", "INCLUDE"), ("foo.bar", "PREFIXED", "EXCLUDE"))
    found = scene("foo.fighters", "foo.bar.fighters", "bar", config=filters)
    assert plan_round(found).create == ("foo.fighters",)
    assert reasons(found) == {
        "foo.fighters": Reason.NEXT_ROUND,
        "foo.bar.fighters": Reason.EXCLUDED,
        "bar": Reason.NOT_INCLUDED,
    }
    (excluded,) = (one for one in plan_round(found).candidates if one.reason is Reason.EXCLUDED)
    assert '{"name": "foo.bar", "patternType": "PREFIXED", "filterType": "EXCLUDE"}' in excluded.detail


def test_named_topics():
    filters = config(("liz", "LITERAL", "INCLUDE"), ("jack", "LITERAL", "INCLUDE"))
    assert plan_round(scene("jack", "jackie", "liz", config=filters)).create == ("jack", "liz")


@pytest.mark.parametrize("name", ["__consumer_offsets", "__lockgate_state", "_confluent-command"])
def test_internal_topics_are_never_created_even_when_they_are_named(name):
    assert only(scene(name, config=config((name, "LITERAL", "INCLUDE")))).reason is Reason.INTERNAL


def test_a_topic_that_the_cluster_calls_internal():
    found = scene(source=[ListedTopic("odd", "", internal=True, readable=True)])
    assert only(found).reason is Reason.INTERNAL


@pytest.mark.parametrize("name", ["_schemas", "confluent-audit-log-events", "confluent-audit-log-events_x"])
def test_schemas_and_audit_logs_only_when_a_literal_filter_names_them(name):
    assert only(scene(name)).reason is Reason.EXCLUDED_BY_DEFAULT
    assert only(scene(name, config=config((name[:5], "PREFIXED", "INCLUDE")))).reason is Reason.EXCLUDED_BY_DEFAULT
    assert only(scene(name, config=config((name, "LITERAL", "INCLUDE")))).reason is Reason.NEXT_ROUND


def test_a_topic_that_the_link_may_not_read():
    found = scene(source=[ListedTopic("a", "", internal=False, readable=False), *topics("b")])
    assert plan_round(found).create == ("b",)
    assert reasons(found)["a"] is Reason.NOT_READABLE
    unknown = scene(source=[ListedTopic("a", "", internal=False, readable=None)])
    assert plan_round(unknown).create == ("a",), "an old broker does not tell; the create finds out"


def test_what_is_on_the_target_stays_as_it_is():
    found = scene("a", "b", on_target=frozenset({"a"}))
    assert plan_round(found).create == ("b",)
    assert reasons(found)["a"] is Reason.EXISTS_ON_TARGET


def test_a_name_that_another_link_mirrors_to():
    found = only(scene("a", mirrored={"a": "east"}))
    assert (found.reason, found.detail) == (Reason.NAME_IS_MIRRORED, "'a' is a mirror topic of link 'east'")


def test_with_a_prefix_names_are_the_targets():
    found = scene("a", "b", config=config(ALL, link_prefix="usa_"), mirrored={"usa_a": "west", "b": "east"})
    assert plan_round(found).candidates[0][:2] == ("b", "usa_b")
    assert plan_round(found).create == ("b",)
    assert only(replace(found, on_target=frozenset({"usa_b"}))).reason is Reason.EXISTS_ON_TARGET


def test_a_name_that_is_too_long_with_the_prefix():
    assert only(scene("n" * 249, config=config(ALL, link_prefix="p"))).reason is Reason.BAD_NAME


def test_with_a_prefix_no_mirror_topic_of_the_source_is_followed():
    """Two clusters that mirror each other would go on for ever: t, a.t, b.a.t, a.b.a.t."""
    there = frozenset({"b.t"})
    assert reasons(scene("b.t", "t", mirrors_there=there, config=config(ALL, link_prefix="a."))) == {
        "b.t": Reason.MIRROR_TOPIC_ON_SOURCE,
        "t": Reason.NEXT_ROUND,
    }
    assert plan_round(scene("b.t", mirrors_there=there)).create == ("b.t",), "a chain without a prefix"


def test_where_it_cannot_be_known_what_is_a_mirror_topic_a_name_goes_round_once():
    found = scene("b.a.t", "t", mirrors_there=None, config=config(ALL, link_prefix="a."))
    assert reasons(found) == {"b.a.t": Reason.MIRROR_TOPIC_ON_SOURCE, "t": Reason.NEXT_ROUND}
    assert reasons(replace(found, mirrors_there=frozenset()))["b.a.t"] is Reason.NEXT_ROUND


def test_switched_off_nothing_is_created_and_every_candidate_is_shown():
    found = scene("a", "b", "__x", config=config(), on_target=frozenset({"b"}))
    assert plan_round(found).create == ()
    assert reasons(found) == {"a": Reason.AUTO_CREATE_OFF, "b": Reason.EXISTS_ON_TARGET, "__x": Reason.INTERNAL}


def test_a_round_has_a_limit_and_goes_by_name():
    names = [f"t{number:05}" for number in range(10_000)]
    limited = scene(*names, config=config(ALL, auto_create_mirror_topics_limit="3"))
    found = plan_round(limited)
    assert found.create == ("t00000", "t00001", "t00002")
    assert [one.reason for one in found.candidates[:4]] == [Reason.NEXT_ROUND] * 3 + [Reason.LATER_ROUND]
    assert found.candidates[4].detail.startswith("4 topics come before it; a round creates 3")


def test_who_has_waited_longer_comes_first():
    limited = scene("a", "b", "c", config=config(ALL, auto_create_mirror_topics_limit="2"), now=9.0)
    assert plan_round(replace(limited, due={"c": 1.0, "b": 2.0})).create == ("c", "b")
    assert plan_round(replace(limited, due={"c": 1.0})).create == ("c", "a")


def test_what_was_refused_is_asked_for_less_and_less_often():
    memory, pauses, now = Memory(), [], 0.0
    for _ in range(8):
        memory.was_refused("a", "too many replicas", now, 300.0)
        pauses.append(memory.refused["a"].again_at - now)
        now = memory.refused["a"].again_at
    assert pauses == [300, 600, 1200, 2400, 3600, 3600, 3600, 3600]
    memory.was_refused("b", "no", 0.0, 7200.0)
    assert memory.refused["b"].again_at == 7200, "never more often than a round"
    for _ in range(2000):
        memory.was_refused("b", "no", 0.0, 7200.0)
    assert memory.refused["b"].again_at == 7200


def test_what_was_refused_keeps_no_other_topic_from_its_turn():
    memory = Memory()
    memory.was_refused("a", "the target says no", 10.0, 300.0)
    waiting = scene("a", "b", config=config(ALL, auto_create_mirror_topics_limit="1"), refused=memory.refused, now=50.0)
    assert plan_round(waiting).create == ("b",)
    refused = plan_round(waiting).candidates[0]
    assert refused.reason is Reason.REFUSED
    assert refused.detail == "refused once, and asked for again in 260 s: the target says no"
    assert plan_round(replace(waiting, now=310.0, due={"b": 20.0})).create == ("b",)
    assert plan_round(replace(waiting, now=310.0, due={"a": 310.0, "b": 310.0})).create == ("a",)


def test_the_memory_holds_what_the_source_has():
    memory = Memory()
    for name in ("a", "b", "c"):
        memory.was_refused(name, "no", 0.0, 1.0)
    memory.saw({"b"}, {"a", "b"}, 5.0)
    assert set(memory.refused) == {"a", "b"}
    assert set(memory.due) == {"b"}
    memory.was_created("b")
    assert (set(memory.refused), memory.due) == ({"a"}, {})


def test_the_target_is_asked_about_what_nothing_else_speaks_against():
    filters = config(ALL, ("x", "PREFIXED", "EXCLUDE"))
    assert asked_for(scene("a", "b", "x1", "__i", config=filters, mirrored={"b": "west"})) == ["a"]


def test_the_cadence_is_the_clients_metadata_max_age():
    assert cadence_s({}) == 300.0
    assert cadence_s({"metadata.max.age.ms": "60000"}) == 60.0
    assert cadence_s({"metadata.max.age.ms": "1"}) == 1.0


def test_a_deletion_is_futile_while_the_filters_include_the_topic():
    filters = config(ALL, ("old", "PREFIXED", "EXCLUDE"))
    assert "exclude the name" in why_created_again(filters, "orders")
    assert why_created_again(filters, "old.orders") == ""
    assert why_created_again(filters, "_schemas") == ""
    assert why_created_again(config(), "orders") == ""
