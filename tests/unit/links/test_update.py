"""Links while they run: changed, paused, and what is refused leaves everything as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.errors import BadRequest, Conflict, NotFound, SourceUnreachable
from gateway.kafka.connection.errors import AuthenticationFailed
from gateway.links.rules.update import ConfigChange, ConfigOperation
from gateway.operations.link_tasks import LinkTask, TaskState
from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.operations.secrets.rules.references import REDACTED, is_encrypted
from gateway.operations.secrets.sealing import SealingKeys
from gateway.state.errors import StoreError, StoreUncertain
from gateway.state.gateway_records import GatewayRecord
from gateway.state.records import MirrorState
from tests.support.control.control_plane import PROPERTIES, SOURCE, Plane
from tests.support.fakes.fake_engine import status
from tests.support.fakes.fake_kafka import FakeKafka
from tests.support.waiting import wait_until_async

LOGIN = {
    **PROPERTIES,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": "first",
}


async def with_login(plane: Plane) -> None:
    plane.sources.secrets = LinkSecrets(keys=SealingKeys([bytes(32)]))
    for record in list(plane.store.gateways.values()):
        await plane.store.delete(record)
    await plane.service.links.create("l", LOGIN)


async def alter(plane: Plane, *changes: ConfigChange, validate_only: bool = False) -> object:
    return await plane.service.link_updates.alter("l", changes, validate_only=validate_only)


async def test_new_credentials_are_tried_sealed_and_taken_without_a_restart(plane):
    await with_login(plane)
    mirror_started = list(plane.engine.log)
    plane.source.calls.clear()

    view = await plane.service.link_updates.alter("l", [ConfigChange("sasl.password", "second")])

    record = plane.store.links["l"]
    assert view.client["sasl.password"] == REDACTED
    assert is_encrypted(record.client["sasl.password"])
    assert {"start", "try_brokers"} <= set(plane.source.calls)
    assert plane.source.configs[-1].login() == ("u", "second")
    assert plane.engine.log[len(mirror_started) :] == [("update_link", "l")]
    assert plane.engine.links["l"] == record
    assert plane.parts.sources.clusters == {"l": plane.source}
    assert "second" not in str(plane.log.kept)


async def test_a_property_that_leads_nowhere_keeps_the_secret(plane):
    await with_login(plane)

    await alter(plane, ConfigChange("request.timeout.ms", "7000"))

    assert plane.source.configs[-1].login() == ("u", "first")


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ([], BadRequest, "nothing is to be changed"),
        ([ConfigChange("bootstrap.servers", "other:1")], BadRequest, "give it again"),
        ([ConfigChange("sasl.mechanism", "NO"), ConfigChange("sasl.password", "p")], BadRequest, "sasl.mechanism"),
        ([ConfigChange("no.such", "1"), ConfigChange("sasl.password", "p")], BadRequest, "unknown client property"),
        ([ConfigChange("link.prefix", "w.")], BadRequest, "cannot be changed"),
        ([ConfigChange("link.allow.unauthorized.target", "x")], BadRequest, "not true or false"),
    ],
)
async def test_what_is_refused_changes_nothing(plane, changes, error, words):
    await with_login(plane)
    before, told = plane.store.links["l"], list(plane.engine.log)

    with pytest.raises(error, match=words):
        await alter(plane, *changes)

    assert plane.store.links["l"] == before
    assert plane.engine.log == told
    assert plane.source.configs == []


async def test_credentials_that_the_source_or_a_broker_of_it_refuses_are_not_stored(plane):
    await with_login(plane)
    before = plane.store.links["l"]
    for call in ("start", "try_brokers"):
        plane.source.refuse = {call: AuthenticationFailed("s:1: wrong password")}
        with pytest.raises(SourceUnreachable, match="wrong password"):
            await alter(plane, ConfigChange("sasl.password", "wrong"))
    assert plane.store.links["l"] == before
    assert plane.source.configs == []


async def test_another_cluster_is_another_link(plane):
    await plane.with_link()
    plane.reachable["other:1"] = FakeKafka("O")

    with pytest.raises(BadRequest, match=r"other:1 is another cluster \(cluster id O\).*is S: create another link"):
        await alter(plane, ConfigChange("bootstrap.servers", "other:1"))

    plane.reachable["same:1"] = plane.source
    await alter(plane, ConfigChange("bootstrap.servers", "same:1"))
    assert plane.store.links["l"].client["bootstrap.servers"] == "same:1"


async def test_a_login_is_not_lent_where_nobody_is_asked_who_may(plane):
    plane.target.authorizes = False
    await plane.with_link()
    changes = [ConfigChange(name, value) for name, value in LOGIN.items() if name != "bootstrap.servers"]
    plane.sources.secrets = LinkSecrets(keys=SealingKeys([bytes(32)]))

    with pytest.raises(BadRequest, match="the target has no authorizer"):
        await alter(plane, *changes)

    await alter(plane, ConfigChange("link.allow.unauthorized.target", "true"), *changes)
    with pytest.raises(BadRequest, match="the target has no authorizer"):
        await alter(plane, ConfigChange("link.allow.unauthorized.target", operation=ConfigOperation.DELETE))


async def test_validate_only_tries_and_stores_nothing(plane):
    await plane.with_link()
    before = plane.store.links["l"]

    view = await plane.service.link_updates.alter("l", [ConfigChange("ack", "both")], validate_only=True)

    assert view.configs["ack"] == "both"
    assert plane.store.links["l"] == before
    made = await plane.service.links.create("new", PROPERTIES, validate_only=True)
    assert (made.record.name, made.record.source_cluster_id) == ("new", "S")
    assert "new" not in plane.store.links
    assert set(plane.engine.links) == {"l"}


async def test_a_change_that_is_not_stored_is_not_made(plane):
    await plane.with_link()
    plane.log.failures = [StoreError("target gone")]

    with pytest.raises(StoreError):
        await alter(plane, ConfigChange("ack", "both"))

    assert ("update_link", "l") not in plane.engine.log
    assert plane.store.links["l"].configs == {}


async def test_a_change_of_unknown_outcome_is_followed_once_it_is_known(plane):
    await plane.with_link()
    plane.log.failures = [StoreUncertain("no answer")]

    with pytest.raises(StoreUncertain):
        await alter(plane, ConfigChange("ack", "both"))
    await plane.store.put(GatewayRecord(name="b", incarnation="1", role="node", peer="b:1", lease_ms=1))  # finds out

    stored = plane.store.links["l"]
    await wait_until_async(lambda: plane.engine.links["l"] == stored)


async def test_the_next_leader_goes_on_with_what_was_stored(plane):
    await plane.with_mirror()
    await alter(plane, ConfigChange("groups.auto.promote", "false"), ConfigChange("cluster.link.paused", "true"))

    again = Plane(plane.log.kept, clusters_of=plane)
    await again.start()
    assert again.engine.links["l"].configs == {"groups.auto.promote": "false", "cluster.link.paused": "true"}
    assert again.service.mirrors.list("l")[0].state is MirrorState.PAUSED
    await again.close()


async def test_a_paused_link_shows_paused_and_keeps_the_states(plane):
    await plane.with_mirror("a")
    await plane.with_mirror("b")
    await plane.service.mirrors.pause("l", "b")

    plane.engine.numbers["l", "a"] = [status(index) for index in range(3)]
    view = await plane.service.link_updates.pause("l")
    plane.source.existing["a"].ranges = [(0, 150)] * 3

    described = await plane.service.mirrors.describe("l", "a")
    assert {(one.phase, one.source_end) for one in described.partitions} == {("paused", 150)}
    assert (view.state, view.mirror_counts) == ("PAUSED", {"PAUSED": 2})
    assert (plane.state("a"), plane.state("b")) == (MirrorState.ACTIVE, MirrorState.PAUSED)
    shown = {one.record.mirror_topic: one for one in plane.service.mirrors.list("l")}
    assert shown["a"].paused_by_link
    assert "link resume l" in shown["a"].waiting_for
    assert not shown["b"].paused_by_link
    with pytest.raises(Conflict, match="resume the link first"):
        await plane.service.mirrors.promote("l", ["a"])
    plane.service.events.source_available("l", False, "gone")
    await plane.service.events.reconcile()
    assert plane.state("a") is MirrorState.ACTIVE, "what is not mirrored has not lost its source"
    plane.service.events.source_available("l", True, "")

    await plane.service.link_updates.resume("l")
    assert plane.service.links.describe("l").state == "ACTIVE"
    assert plane.service.mirrors.list("l", MirrorState.ACTIVE)[0].record.mirror_topic == "a"
    await plane.service.link_updates.resume("l")  # again: no change, no error


async def test_a_link_is_not_paused_under_a_promote(plane):
    mirror = await plane.with_mirror()
    await plane.by_hand(replace(mirror, state=MirrorState.PENDING_STOPPED))

    with pytest.raises(Conflict, match="is being promoted"):
        await plane.service.link_updates.pause("l")

    assert plane.store.links["l"].configs == {}


async def test_a_link_whose_writes_wait_for_the_mirror_is_not_paused(plane):
    await plane.with_link(ack="both")

    with pytest.raises(BadRequest, match="set ack=source first"):
        await plane.service.link_updates.pause("l")

    await alter(plane, ConfigChange("ack", "source"), ConfigChange("cluster.link.paused", "true"))
    with pytest.raises(BadRequest, match="set ack=source first"):
        await alter(plane, ConfigChange("ack", "both"))


async def test_a_link_that_is_not_there(plane):
    with pytest.raises(NotFound):
        await alter(plane, ConfigChange("ack", "both"))
    with pytest.raises(NotFound):
        plane.service.links.plan_delete("l")


async def test_what_a_deletion_would_leave(plane):
    await plane.with_mirror()

    plan = plane.service.links.plan_delete("l")

    assert "are not STOPPED" in plan.refusal
    assert [(one.kind, one.name, one.state) for one in plan.remains] == [("topic", "orders", "ACTIVE")]
    assert plane.service.links.plan_delete("l", force=True).refusal == ""
    assert "l" in plane.store.links


async def test_a_link_that_is_refused_for_long_fails_and_comes_back(plane):
    await plane.with_mirror()
    events = plane.service.events
    events.source_available("l", False, "wrong password", refused=True)
    await wait_until_async(lambda: plane.state() is MirrorState.SOURCE_UNAVAILABLE)

    plane.clock_s += 299.0
    events.source_available("l", False, "wrong password still", refused=True)
    assert plane.service.links.describe("l").state == "UNAVAILABLE"
    plane.clock_s += 2.0
    await wait_until_async(lambda: plane.state() is MirrorState.LINK_FAILED)
    view = plane.service.links.describe("l")
    assert (view.state, view.error_code) == ("FAILED", "AUTHENTICATION_ERROR")
    check = next(one for one in view.tasks if one.task is LinkTask.CHECK_AVAILABILITY)
    assert check.state is TaskState.IN_ERROR

    events.source_available("l", True, "")
    await wait_until_async(lambda: plane.state() is MirrorState.ACTIVE)
    assert plane.service.links.describe("l").error_code == "NO_ERROR"


async def test_a_source_that_does_not_answer_never_fails_the_link(plane):
    await plane.with_mirror()
    plane.service.events.source_available("l", False, "connection refused")
    await wait_until_async(lambda: plane.state() is MirrorState.SOURCE_UNAVAILABLE)
    plane.clock_s += 100_000.0
    await plane.service.events.reconcile()
    assert plane.state() is MirrorState.SOURCE_UNAVAILABLE


async def test_mirrors_are_paused_and_resumed_together(plane):
    await plane.with_mirror("a")
    await plane.with_mirror("b")
    with pytest.raises(NotFound):
        await plane.service.mirrors.pause_all("l", ["a", "x"])
    assert plane.state("a") is MirrorState.ACTIVE
    await plane.service.mirrors.pause_all("l", ["a"])
    assert [one.state for one in await plane.service.mirrors.pause_all("l", ["a", "b"])] == [MirrorState.PAUSED] * 2
    assert [one.state for one in await plane.service.mirrors.resume_all("l", ["a", "b"])] == [MirrorState.ACTIVE] * 2


async def test_the_syncs_report_how_they_went(plane):
    await plane.with_mirror()
    plane.source.down = True
    plane.clock_s += 10.0

    def state() -> TaskState:
        found = {one.task: one.state for one in plane.service.links.describe("l").tasks}
        return TaskState(found[LinkTask.TOPIC_CONFIGS_SYNC])

    await wait_until_async(lambda: state() is TaskState.IN_ERROR)
    plane.source.down = False
    plane.clock_s += 10.0
    await wait_until_async(lambda: state() is TaskState.ACTIVE)
    assert SOURCE in PROPERTIES.values()
