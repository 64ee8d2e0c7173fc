"""What must move together, of snapshots of a source."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from gateway.migration.rules.draft import MANY, REST, draft, draft_yaml, left_out
from gateway.migration.rules.file import Until, parsed
from gateway.migration.rules.sets import WIDE, Discovered, MoveSet, SetKind, discover
from gateway.migration.rules.snapshot import (
    GroupSeen,
    MemberSeen,
    NotKnown,
    SourceSnapshot,
    TopicSeen,
    TransactionalIdSeen,
)
from gateway.migration.rules.ties import Why, offsets_partition

PROCESS = "0a1b2c3d-0000-4000-8000-0123456789ab"


def topic(name: str, *producers: int) -> TopicSeen:
    return TopicSeen(name=name, producer_ids=frozenset(producers))


def reads(name: str, *topics: str, **more: object) -> GroupSeen:
    member = MemberSeen(client_id=f"{name}-1", host="10.0.0.1")
    return GroupSeen(name=name, read=frozenset(topics), members=(member,), **more)  # type: ignore[arg-type]


def transactional(
    name: str, *, writes: Iterable[str] = (), commits: Iterable[str] = (), **more: object
) -> TransactionalIdSeen:
    return TransactionalIdSeen(name=name, open=frozenset(writes), groups=frozenset(commits), **more)  # type: ignore[arg-type]


def found(
    *topics: str | TopicSeen, groups: Iterable[GroupSeen] = (), ids: Iterable[TransactionalIdSeen] = ()
) -> Discovered:
    seen = tuple(topic(one) if isinstance(one, str) else one for one in topics)
    return discover(
        SourceSnapshot(
            cluster_id="C", topics=seen, groups=tuple(groups), transactional_ids=tuple(ids), offset_partition_count=50
        )
    )


def members(one: MoveSet) -> tuple[str, ...]:
    return (*one.topics, *one.groups, *one.transactional_ids)


def sets(discovered: Discovered) -> set[tuple[str, ...]]:
    return {members(one) for one in discovered.sets}


def of(discovered: Discovered, name: str) -> MoveSet:
    return next(one for one in discovered.sets if name in members(one))


def test_topics_of_one_transactional_id_are_one_set() -> None:
    assert sets(found("a", "b", "c", ids=[transactional("t", writes=["a", "b"])])) == {("a", "b", "t"), ("c",)}


def test_a_complete_transaction_is_told_by_its_producer_id() -> None:
    one = of(found(topic("a", 7), topic("b", 8), ids=[transactional("t", producer_ids=frozenset({7}))]), "t")
    assert members(one) == ("a", "t")
    assert "DescribeProducers" in one.ties[0].reason


def test_a_former_transaction_is_told_by_the_log() -> None:
    one = of(found("a", ids=[transactional("t", logged=frozenset({"a"}))]), "t")
    assert "__transaction_state" in one.ties[0].reason


def test_a_group_whose_offsets_are_committed_in_transactions_moves_with_what_they_write() -> None:
    ids = [transactional("t", writes=["out"], commits=["g"])]
    discovered = found("in", "out", groups=[reads("g", "in")], ids=ids)
    assert sets(discovered) == {("in", "out", "g", "t")}  # nobody else reads `in`
    assert discovered.sets[0].kind is SetKind.TRANSACTIONAL
    assert discovered.sets[0].binds


def test_an_input_that_others_read_is_no_part_of_it_and_goes_behind() -> None:
    ids = [transactional("t", writes=["out"], commits=["g"]), transactional("u", writes=["other"], commits=["h"])]
    discovered = found("in", "out", "other", groups=[reads("g", "in"), reads("h", "in")], ids=ids)
    assert sets(discovered) == {("in",), ("out", "g", "t"), ("other", "h", "u")}
    assert set(of(discovered, "in").after) == {"g", "h"}
    assert discovered.sets[-1].topics == ("in",)


def test_two_that_read_each_others_topics_are_one_since_neither_can_go_first() -> None:
    ids = [transactional("t", writes=["b"], commits=["g"]), transactional("u", writes=["a"], commits=["h"])]
    groups = [reads("g", "a"), reads("h", "b"), reads("k", "a", "b")]
    discovered = found("a", "b", groups=groups, ids=ids)
    assert members(of(discovered, "a")) == ("a", "b", "g", "h", "t", "u")
    assert of(discovered, "a").after == (of(discovered, "k").name,)


def test_only_one_group_in_the_partition_of_a_commit_is_likely_and_several_are_not_known() -> None:
    partition = offsets_partition("g", 50)
    one = [transactional("t", writes=["out"], offset_partitions=frozenset({partition}))]
    likely = found("in", "out", groups=[reads("g", "in")], ids=one)
    assert [tie.likely for tie in of(likely, "t").ties if tie.why is Why.COMMITS_IN_TRANSACTIONS] == [True]

    twin = next(f"x{n}" for n in range(10_000) if offsets_partition(f"x{n}", 50) == partition)
    open_end = found("in", "out", groups=[reads("g", "in"), reads(twin, "in")], ids=one)
    assert members(of(open_end, "t")) == ("out", "t")
    assert any("g, x" in each.what and "__consumer_offsets" in each.how_to_tell for each in open_end.not_known)


def test_a_group_that_was_not_described_may_be_the_one_whose_offsets_are_committed() -> None:
    """Else the group that was, which has nothing to do with it, would be bound in its place."""
    partition = offsets_partition("g", 50)
    late = next(f"x{n}" for n in range(10_000) if offsets_partition(f"x{n}", 50) == partition)
    one = [transactional("t", writes=["out"], offset_partitions=frozenset({partition}))]
    undescribed = GroupSeen(name=late, unknown="no answer in time")
    discovered = found("in", "out", groups=[reads("g", "in"), undescribed], ids=one)
    assert members(of(discovered, "t")) == ("out", "t")
    assert any(f"which one is not told (there: g, {late})" in each.what for each in discovered.not_known)


def test_who_is_known_to_commit_is_not_guessed_again() -> None:
    partition = frozenset({offsets_partition("g", 50)})
    ids = [transactional("t", writes=["out"], commits=["g"], offset_partitions=partition)]
    one = of(found("in", "out", groups=[reads("g", "in")], ids=ids), "t")
    assert [tie.likely for tie in one.ties if tie.why is Why.COMMITS_IN_TRANSACTIONS] == [False]


def test_the_partition_of_a_group_is_javas() -> None:
    assert offsets_partition("app", 50) == 96801 % 50  # "app".hashCode()
    assert offsets_partition("polygenelubricants", 50) == 0  # its hashCode is Integer.MIN_VALUE


def test_a_streams_application_is_one_set_by_its_names() -> None:
    ids = [transactional(f"app-{PROCESS}-1", writes=["counts", "app-store-changelog"])]
    topics = ("words", "counts", "app-store-changelog", "app-count-repartition", "app-two-store-changelog")
    groups = [reads("app", "words", "app-count-repartition", protocol="stream"), reads("app-two", protocol="stream")]
    discovered = found(*topics, groups=groups, ids=ids)
    one = of(discovered, "app")
    assert one.kind is SetKind.STREAMS
    assert set(one.topics) == {"words", "counts", "app-store-changelog", "app-count-repartition"}
    assert of(discovered, "app-two").topics == ("app-two-store-changelog",)  # the longest name has it


def test_a_streams_application_that_is_down_is_known_by_its_topics() -> None:
    groups = [GroupSeen(name="app", committed=frozenset({"words"}))]
    one = of(found("words", "app-store-changelog", groups=groups), "app")
    assert (one.kind, one.topics) == (SetKind.STREAMS, ("app-store-changelog", "words"))


def test_a_connect_cluster_has_its_topics_and_names_its_sinks() -> None:
    groups = [
        GroupSeen(name="cc", protocol_type="connect", connectors=frozenset({"jdbc"})),
        reads("connect-jdbc", "orders"),
    ]
    discovered = found("connect-configs", "connect-offsets", "connect-status", "orders", groups=groups)
    assert of(discovered, "cc").kind is SetKind.CONNECT
    assert of(discovered, "cc").topics == ("connect-configs", "connect-offsets", "connect-status")
    assert of(discovered, "connect-jdbc").topics == ("orders",)
    assert [tie.why for tie in discovered.across] == [Why.CONNECT_SINK]


def test_ordinary_groups_make_sets_of_their_topics_but_wide_ones_do_not() -> None:
    topics = [f"t{n}" for n in range(WIDE + 1)]
    discovered = found(*topics, groups=[reads("g", "t0", "t1"), reads("wide", *topics)])
    assert ("t0", "t1", "g") in sets(discovered)
    assert ("wide",) in sets(discovered)
    assert all("wide" in one.after for one in discovered.sets if one.topics)
    assert not any(one.binds for one in discovered.sets)


def test_what_is_a_clusters_own_does_not_move() -> None:
    groups = [GroupSeen(name="s", type="share", protocol_type="share"), GroupSeen(name="odd", protocol_type="other")]
    topics = (TopicSeen(name="__consumer_offsets", internal=True), "a")
    assert sets(found(*topics, groups=groups)) == {("a",)}


def test_what_no_broker_tells_is_said() -> None:
    discovered = found(
        topic("a", 3), "b", TopicSeen(name="c", producer_ids=None), groups=[reads("g", "a", by_pattern=True)]
    )
    said = " ".join(one.what for one in discovered.not_known)
    for words in ("idempotent producers of a", "anybody writes b", "who writes c", "groups g will read"):
        assert words in said
    assert all(one.how_to_tell for one in discovered.not_known)


def test_the_draft_is_a_migration_file() -> None:
    ids = [transactional("t", writes=["out"], commits=["g"])]
    discovered = found("in", "out", "plain", groups=[reads("g", "in"), reads("h", "plain")], ids=ids)
    file = draft(discovered, "west")
    assert file is not None
    assert parsed(yaml.safe_load(draft_yaml(discovered, file))) == file
    assert {one.name: one.together for one in file.applications} == {"g": True, "h": False}


def test_a_draft_takes_nobody_over() -> None:
    """The first block of docs/guides/migration-file.md applies it: what changes sides is for somebody to say."""
    discovered = found(*(f"t{n}" for n in range(MANY + 1)), "read", groups=[reads("g", "read")])
    file = draft(discovered, "west")
    assert file is not None
    assert {one.until for one in file.applications} == {Until.MIRRORED}


def test_many_topics_that_nobody_reads_are_one_application_of_the_draft() -> None:
    discovered = found(*(f"t{n}" for n in range(MANY + 1)), "read", groups=[reads("g", "read")])
    file = draft(discovered, "west")
    assert file is not None
    assert [(one.name, len(one.topics)) for one in file.applications] == [("g", 1), (REST, MANY + 1)]


def test_a_group_whose_name_would_be_a_pattern_is_left_out_and_said() -> None:
    discovered = found("a", groups=[reads("x*y", "a")])
    file = draft(discovered, "west")
    assert file is not None
    assert file.applications[0].groups == []
    assert left_out(discovered, file)[0].startswith("x*y: ")
    assert "# Left out: x*y" in draft_yaml(discovered, file)


def test_an_empty_source_has_no_file() -> None:
    assert draft(found(), "west") is None


def test_what_was_refused_stays_in_it() -> None:
    snapshot = SourceSnapshot(not_known=(NotKnown("x", "y"),))
    assert NotKnown("x", "y") in discover(snapshot).not_known
