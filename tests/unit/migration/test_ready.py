"""Readiness asked of a control plane in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.errors import NotFound
from gateway.kafka.commits import Committed
from gateway.kafka.connection.errors import BrokerError
from gateway.kafka.groups import GroupView, MemberView
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType
from gateway.kafka.transactions import TransactionDescription
from gateway.migration.history import MirrorTrends
from gateway.migration.rules.file import parsed
from gateway.migration.rules.readiness import Code
from gateway.state.records import GroupRecord
from protocol.errors import ErrorCode
from tests.support.control.control_plane import Plane
from tests.support.fakes.fake_engine import status

FILE = parsed({"migration": "m", "link": "l", "applications": [{"name": "a", "topics": ["orders"], "groups": ["g"]}]})


@pytest.fixture
async def scene(plane: Plane) -> Plane:
    """A mirror that is level, and a group that has not moved; its member reads beside the gateway."""
    await plane.with_mirror(partitions=1)
    plane.engine.numbers["l", "orders"] = [status(0)]
    member = MemberView(member_id="m", client_id="app", host="h", subscribed=frozenset({"orders"}))
    plane.source.groups["g"] = GroupView(
        group="g", state="Stable", type="classic", protocol_type="consumer", members=(member,)
    )
    await plane.by_hand(GroupRecord(link="l", group="g"))
    plane.service.readiness._transactions = nothing_open
    return plane


async def nothing_open(_: object) -> list[TransactionDescription]:
    return []


async def test_who_has_not_moved_and_has_no_offset(scene: Plane) -> None:
    (judged,) = await scene.service.readiness.of_file(FILE)
    assert [one.code for one in judged.findings] == [Code.GROUP_NOT_PROMOTED, Code.GROUP_WITHOUT_COMMITS]
    scene.source.offsets["g"] = {("orders", 0): Committed(1, -1, "")}
    (judged,) = await scene.service.readiness.of_file(FILE)
    assert [one.code for one in judged.findings] == [Code.GROUP_NOT_PROMOTED]


async def test_an_open_transaction_of_the_topic(scene: Plane) -> None:
    async def one_open(_: object) -> list[TransactionDescription]:
        return [TransactionDescription("t", "Ongoing", 7, scene.now_ms - 60_000, 900_000, {"orders": (0,)})]

    scene.service.readiness._transactions = one_open
    (judged,) = await scene.service.readiness.of_file(FILE)
    found = next(one for one in judged.findings if one.code is Code.TRANSACTION_OPEN)
    assert "open for 60 s" in found.reason


async def test_a_source_that_is_down_blocks(scene: Plane) -> None:
    scene.source.down = True
    (judged,) = await scene.service.readiness.of_file(FILE)
    assert Code.CLIENTS_UNKNOWN in [one.code for one in judged.findings]
    assert judged.score <= 40


async def test_all_of_a_link(scene: Plane) -> None:
    judged = await scene.service.readiness.of_link("l")
    assert judged is not None
    assert judged.application == "l"
    with pytest.raises(NotFound):
        await scene.service.readiness.of_link("x")


async def test_only_the_file_that_was_applied_is_told_of(scene: Plane) -> None:
    """All of a link is judged under its name, which a migration may have, too."""
    applied = FILE.model_copy(update={"migration": "l"})
    await scene.service.migrations.apply(applied, "ann")
    readiness = scene.service.readiness
    await readiness.of_file(applied)
    scores = dict(readiness.last["l"])
    assert scores.keys() == {"a"}
    await readiness.of_link("l")
    await readiness.of_file(
        parsed({"migration": "l", "link": "l", "applications": [{"name": "draft", "topics": ["orders"]}]})
    )
    assert readiness.last["l"] == scores


async def test_scores_of_migrations_are_kept_for_the_metrics(scene: Plane) -> None:
    await scene.service.migrations.apply(FILE, "ann")
    await scene.service.readiness.look()
    (numbers,) = scene.service.numbers().migrations
    assert (numbers.migration, list(numbers.readiness)) == ("m", ["a"])
    await scene.service.migrations.abort("m", "ann")
    await scene.service.migrations.delete("m")
    assert scene.service.numbers().migrations == []


async def test_bypassing_writers_of_an_hour_and_the_lag_before(scene: Plane) -> None:
    history = MirrorTrends(scene.store.mirrors, scene.engine.status)
    for minute in range(70):
        scene.engine.numbers["l", "orders"] = [status(0, lag=minute, bypassed_last_minute=1)]
        await history.look()
    assert history.bypassed("l", "orders") == 60
    assert history.lag_before("l", "orders") == 65
    assert history.lag_before("l", "other") is None


async def test_samples_are_of_one_mirror_in_one_direction(scene: Plane) -> None:
    """A topic that is deleted and mirrored again, or that came home, has bypassed nobody and had no lag yet."""
    history = MirrorTrends(scene.store.mirrors, scene.engine.status)
    for _ in range(9):
        scene.engine.numbers["l", "orders"] = [status(0, lag=900, bypassed_last_minute=1)]
        await history.look()
    assert (history.bypassed("l", "orders"), history.lag_before("l", "orders")) == (9, 900)
    old = scene.store.mirrors["l", "orders"]
    await scene.by_hand(replace(old, mirror_id=old.mirror_id + 1))
    assert (history.bypassed("l", "orders"), history.lag_before("l", "orders")) == (0, None)
    await history.look()
    assert (history.bypassed("l", "orders"), history.lag_before("l", "orders")) == (1, None)


async def test_acls_that_the_source_does_not_tell_are_no_acls_that_are_there(scene: Plane) -> None:
    readiness = scene.service.readiness
    assert Code.ACLS_UNKNOWN not in [one.code for one in (await readiness.of_file(FILE))[0].findings]
    scene.source.refuse["acls"] = BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "describe ACLs: refused")
    (judged,) = await readiness.of_file(FILE)
    found = next(one for one in judged.findings if one.code is Code.ACLS_UNKNOWN)
    assert "refused" in found.reason


async def test_acls_that_cannot_be_copied_are_missing_and_refused_ones_count_once(scene: Plane) -> None:
    made = Acl(ResourceType.TOPIC, PatternType.LITERAL, "orders", "User:a", "*", Operation.READ, Permission.ALLOW)
    link = scene.store.links["l"]
    every = '{"aclFilters":[{"resourceFilter":{"resourceType":"any"}}]}'
    rules = {"acl.sync.enable": "true", "acl.filters": every, "acl.sync.principal.mapping.rules": "RULE:^User:a$/a/"}
    await scene.by_hand(replace(link, configs={**link.configs, **rules}))
    scene.source.acls_there = {made, made._replace(principal="User:b"), made._replace(principal="User:c")}
    scene.target.refused_acls[made] = BrokerError(ErrorCode.POLICY_VIOLATION, "refused")
    await scene.service.acl_sync.follow("l")
    (judged,) = await scene.service.readiness.of_file(FILE)
    found = next(one for one in judged.findings if one.code is Code.ACLS_DIFFER)
    assert found.reason.startswith("3 ACL(s)")


async def test_offsets_that_are_not_told_are_no_offsets_that_are_there(scene: Plane) -> None:
    scene.source.refuse["committed_offsets"] = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "refused")
    (judged,) = await scene.service.readiness.of_file(FILE)
    assert Code.OFFSETS_UNKNOWN in [one.code for one in judged.findings]


async def test_scores_of_another_link_or_file_are_not_told(scene: Plane) -> None:
    await scene.service.migrations.apply(FILE, "ann")
    readiness = scene.service.readiness
    await readiness.look()
    assert readiness.last.keys() == {"m"}
    link, record = scene.store.links["l"], scene.store.migrations["m"]
    await scene.by_hand(replace(record, file=record.file.replace('"a"', '"b"')))
    assert readiness.last == {}
    await readiness.look()
    assert readiness.last["m"].keys() == {"b"}
    await scene.by_hand(replace(link, link_id=link.link_id + 1))
    assert readiness.last == {}
    await readiness.look()
    assert readiness.last == {}
