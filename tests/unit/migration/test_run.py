"""Migrations carried out over a control plane in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import BadRequest, Conflict, NotFound
from gateway.groups.gate.rules.gates import Identity, Waiter
from gateway.kafka.commits import Committed
from gateway.kafka.groups import GroupView, MemberView
from gateway.migration.client_errors import ErrorWatch
from gateway.migration.rules.client_errors import TOPIC, AnswerCount, ClientErrors, Failure, Name
from gateway.migration.rules.file import MigrationFile, parsed
from gateway.migration.rules.resolve import MigrationStepKind
from gateway.migration.rules.world import World
from gateway.migration.world_reader import WorldReader
from gateway.state.migration_records import MigrationState
from gateway.state.records import GroupState, MirrorState
from protocol.errors import ErrorCode
from tests.support.control.control_plane import Plane
from tests.support.fakes.fake_engine import status
from tests.support.waiting import wait_until_async

TOPICS = ("orders", "payments")


def file(**more: Any) -> MigrationFile:
    application = {"name": "a", "topics": list(TOPICS), "groups": ["billing"], "options": {"idle_groups": True}, **more}
    return parsed({"migration": "m", "link": "l", "applications": [application], "failback_keep": 0})


async def scene(plane: Plane) -> None:
    """A source with two topics and a group that has read one of them, and is away now."""
    await plane.with_link(**{"groups.auto.promote": "false"})
    for name in TOPICS:
        plane.source.add(name, 1, 10)
        plane.engine.numbers["l", name] = [status(0)]
    plane.source.groups["billing"] = GroupView(group="billing", state="Empty", type="classic", protocol_type="consumer")
    plane.source.offsets["billing"] = {("orders", 0): Committed(10, -1, "")}
    plane.service.group_reports.members_on_source["l", "billing"] = 0


async def done(plane: Plane) -> None:
    await wait_until_async(lambda: plane.store.migrations["m"].state is MigrationState.DONE, 30, what="DONE")


def journal(plane: Plane) -> list[tuple[str, tuple[str, ...], str]]:
    return [(entry.what, entry.names, entry.by) for entry in plane.store.migrations["m"].journal]


async def test_a_file_is_carried_out_to_its_end(plane: Plane) -> None:
    await scene(plane)
    view = await plane.service.migrations.apply(file(), "ann")
    assert next(step.kind for step in view.plan.applications[0].steps) is MigrationStepKind.CREATE_MIRROR
    await done(plane)
    assert [plane.state(name) for name in TOPICS] == [MirrorState.STOPPED] * 2
    assert plane.store.groups["l", "billing"].state is GroupState.PROMOTED
    whats = journal(plane)
    assert whats[0] == ("APPLIED", (), "ann")
    assert sorted(whats[1:4]) == [
        ("CREATE_MIRROR", ("orders",), ""),
        ("CREATE_MIRROR", ("payments",), ""),
        ("DECLARE_GROUP", ("billing",), ""),
    ]
    assert whats[4:] == [("PROMOTE_GROUP", ("billing",), ""), ("PROMOTE_TOPICS", TOPICS, ""), ("DONE", (), "")]


async def test_together_is_one_promote_of_topics_and_groups_without_force(plane: Plane) -> None:
    await scene(plane)
    await plane.service.migrations.apply(file(together=True), "ann")
    await done(plane)
    assert plane.promoters.asked == [("l", TOPICS, False)]
    assert plane.promoters.along == [(TOPICS, ("billing",))]
    assert [what for what, _, _ in journal(plane)[-2:]] == ["PROMOTE_TOGETHER", "DONE"]


async def test_what_was_done_by_hand_is_done(plane: Plane) -> None:
    await scene(plane)
    for name in TOPICS:
        await plane.service.mirrors.create("l", name)
    await plane.service.groups.create("l", "billing")
    await plane.service.groups.promote("l", "billing")
    await plane.service.migrations.apply(file(until="groups"), "ann")
    await done(plane)
    assert [what for what, _, _ in journal(plane)] == ["APPLIED", "DONE"]


async def test_the_next_leader_goes_on(plane: Plane) -> None:
    await scene(plane)
    plane.engine.numbers.clear()  # no lag is measured: it cannot go to its end
    await plane.service.migrations.apply(file(), "ann")
    await wait_until_async(lambda: ("l", "payments") in plane.store.mirrors, 30, what="the mirrors")
    other = Plane(plane.log.kept, clusters_of=plane)
    await plane.close()
    await other.start()
    try:
        other.service.group_reports.members_on_source["l", "billing"] = 0
        for name in TOPICS:
            other.engine.numbers["l", name] = [status(0)]
        await done(other)
    finally:
        await other.close()


async def test_a_paused_one_takes_no_step(plane: Plane) -> None:
    await scene(plane)
    plane.source.down = True
    await plane.service.migrations.apply(file(), "ann")
    paused = await plane.service.migrations.pause("m", "bob")
    plane.source.down = False
    applied = plane.store.applied
    await plane.service._migration_run.run_due()
    assert (paused.record.state, plane.store.applied) == (MigrationState.PAUSED, applied)
    with pytest.raises(Conflict, match="is PAUSED, not RUNNING"):
        await plane.service.migrations.pause("m", "bob")
    await plane.service.migrations.resume("m", "bob")
    await done(plane)


async def test_an_aborted_one_goes_on_only_by_a_new_apply(plane: Plane) -> None:
    await scene(plane)
    await plane.service.migrations.apply(file(until="mirrored"), "ann")
    await done(plane)
    with pytest.raises(Conflict, match="is DONE"):
        await plane.service.migrations.abort("m", "bob")
    again = await plane.service.migrations.apply(file(), "bob")
    assert (again.record.state, again.record.applied_by) == (MigrationState.RUNNING, "bob")
    aborted = await plane.service.migrations.abort("m", "bob")
    assert aborted.record.journal[-1].by == "bob"
    await plane.service.migrations.delete("m")
    assert "m" not in plane.store.migrations


async def test_what_cannot_be_applied(plane: Plane) -> None:
    with pytest.raises(NotFound, match="link 'l' does not exist"):
        await plane.service.migrations.apply(file(), "ann")
    await scene(plane)
    await plane.service.links.create("k", {"bootstrap.servers": "source:9092"})
    await plane.service.migrations.apply(file(until="mirrored"), "ann")
    with pytest.raises(BadRequest, match="is of link 'l'"):
        await plane.service.migrations.apply(file().model_copy(update={"link": "k"}), "ann")
    with pytest.raises(NotFound, match="no migration 'x'"):
        plane.service.migrations.record("x")


async def test_a_dry_run_changes_nothing(plane: Plane) -> None:
    await scene(plane)
    applied = plane.store.applied
    view = await plane.service.migrations.apply(file(), "ann", validate_only=True)
    assert len(view.plan.applications[0].steps) == 5
    assert (plane.store.applied, dict(plane.store.migrations)) == (applied, {})


async def test_a_rule_stops_it_and_who_goes_on_accepts_the_value(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene(plane)
    applications = [{"name": name, "topics": [name]} for name in TOPICS]
    rules = {"waves": 2, "stop_when": {"late_writes": 0}, "failback_keep": 0}
    late = {"orders": {0: 3}}
    monkeypatch.setattr(plane.service.mirrors._promoter, "records_after_cutover", lambda _, topic: late.get(topic, {}))
    await plane.service.migrations.apply(
        parsed({"migration": "m", "link": "l", "applications": applications, **rules}), "ann"
    )
    await wait_until_async(lambda: plane.store.migrations["m"].stopped_by, 30, what="a rule")
    record = plane.store.migrations["m"]
    assert (record.state, record.stopped_by) == (MigrationState.PAUSED, "late_writes is 3, 0 at most ('orders')")
    assert [plane.state(name) for name in TOPICS] == [MirrorState.STOPPED, MirrorState.ACTIVE]
    assert journal(plane)[-1] == ("STOPPED_BY_RULE", ("orders",), "")
    view = await plane.service.migrations.resume("m", "ann")
    assert (view.record.stopped_by, view.record.accepted) == ("", {"late_writes": 3})
    await done(plane)
    assert plane.state("payments") is MirrorState.STOPPED


async def test_errors_of_clients_stop_it_and_who_goes_on_has_them_counted_anew(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene(plane)
    denied = Failure(int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 9, "ann")
    seen = {Name(TOPIC, "orders"): AnswerCount(90, 9, 90, 9, (denied,))}
    asked: list[ErrorWatch] = []

    async def ask(question: ErrorWatch) -> ClientErrors:
        asked.append(question)
        return ClientErrors(seen)

    monkeypatch.setattr(plane.service._client_errors, "_ask", ask)
    applications = [{"name": name, "topics": [name]} for name in TOPICS]
    rules = {"waves": 2, "wave_rest": "1h", "stop_when": {"client_errors_percent": 5}, "failback_keep": 0}
    made = {"migration": "m", "link": "l", "applications": applications, **rules}
    await plane.service.migrations.apply(parsed(made), "ann")
    await wait_until_async(lambda: plane.store.migrations["m"].stopped_by, 30, what="a rule")
    record = plane.store.migrations["m"]
    assert record.state is MigrationState.PAUSED
    assert record.stopped_by == (
        "client_errors_percent is 10, 5 at most ('orders': 9 of 90 answers looked at in 60 s, "
        "mostly TOPIC_AUTHORIZATION_FAILED, client 'ann')"
    )
    assert journal(plane)[-1] == ("STOPPED_BY_RULE", ("orders",), "")
    assert {name for one in asked for name in one.names} == {Name(TOPIC, "orders")}
    seen.clear()
    plane.now_ms += 7_200_000
    view = await plane.service.migrations.resume("m", "ann")
    assert (view.record.stopped_by, view.record.accepted, view.client_errors) == ("", {}, None)
    await done(plane)
    assert plane.state("payments") is MirrorState.STOPPED


async def test_a_promote_asks_again_right_before_it(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source's names count for some seconds: a group that has come since then would be left behind."""
    await scene(plane)
    plane.source.groups["billing-2"] = replace(plane.source.groups["billing"], group="billing-2")
    plane.service.group_reports.members_on_source["l", "billing-2"] = 0
    read, looks = WorldReader.read, list[bool]()

    async def as_it_was(self: WorldReader, *args: Any, fresh: bool = False) -> World:
        world = await read(self, *args, fresh=fresh)
        looks.append(fresh)
        if fresh or len(looks) > 8 or world.source_groups is None:
            return world
        return replace(world, source_groups=world.source_groups - {"billing-2"})

    monkeypatch.setattr(WorldReader, "read", as_it_was)
    await plane.service.migrations.apply(file(together=True, groups=["billing*"]), "ann")
    await done(plane)
    assert plane.promoters.along == [(TOPICS, ("billing", "billing-2"))]


async def test_a_rule_that_nobody_has_measured_holds_the_next_promote(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever leads since a moment ago does not know yet what came to the source behind the first wave."""
    await scene(plane)
    applications = [{"name": name, "topics": [name]} for name in TOPICS]
    rules = {"waves": 2, "stop_when": {"late_writes": 0}, "failback_keep": 0}
    known = list[bool]()
    monkeypatch.setattr(plane.service.mirrors._promoter, "late_writes_known", lambda *_: bool(known))
    made = {"migration": "m", "link": "l", "applications": applications, **rules}
    await plane.service.migrations.apply(parsed(made), "ann")
    told = plane.service.migrations.failures
    await wait_until_async(lambda: "not measured" in str(told.get("m")), 30, what="the reason")
    assert [plane.state(name) for name in TOPICS] == [MirrorState.STOPPED, MirrorState.ACTIVE]
    known.append(True)
    await done(plane)


async def test_a_link_that_was_made_anew_is_not_migrated_unasked(plane: Plane) -> None:
    await scene(plane)
    plane.source.down = True
    await plane.service.migrations.apply(file(), "ann")
    plane.source.down = False
    first = plane.store.links["l"]
    await plane.by_hand(replace(first, link_id=first.link_id + 1))
    await plane.service._migration_run.run_due()
    view = await plane.service.migrations.describe("m")
    assert view.plan.problems == ("link 'l' was made anew since the file was applied: lockgate migration apply FILE",)
    assert not plane.store.mirrors
    await plane.service.migrations.apply(file(), "ann")
    await done(plane)


async def test_two_migrations_do_not_own_one_topic(plane: Plane) -> None:
    await scene(plane)
    await plane.service.migrations.apply(file(until="mirrored", groups=[]), "ann")
    await plane.service.migrations.pause("m", "ann")
    other = parsed({"migration": "n", "link": "l", "applications": [{"name": "b", "topics": ["pay*"]}]})
    for validate_only in (True, False):
        with pytest.raises(Conflict, match=r"topic 'payments' is of migration 'm' \(PAUSED\) already"):
            await plane.service.migrations.apply(other, "bob", validate_only=validate_only)
    assert plane.store.migrations.keys() == {"m"}
    await plane.service.migrations.abort("m", "ann")
    await plane.service.migrations.apply(other, "bob")


async def test_a_member_that_lives_is_named_and_one_that_waits_under_its_name_is_left_to_its_timeout(
    plane: Plane,
) -> None:
    await scene(plane)
    await plane.service.groups.create("l", "billing")
    reports = plane.service.group_reports
    reports.members_on_source["l", "billing"] = 1
    reports.who_on_source["l", "billing"] = (MemberView(member_id="m", client_id="old-1", host="/10.0.0.7"),)

    async def waits() -> str:
        plan = await plane.service.migrations.plan(file())
        return next(
            step.waits_for for step in plan.applications[0].steps if step.kind is MigrationStepKind.PROMOTE_GROUP
        )

    plane.gates.wait(Waiter("billing", Identity("10.0.0.9", "new-1"), 0.0), lambda: None)
    assert await waits() == "1 member(s) on the source: stop old-1 at /10.0.0.7 there, and start it at the gateway"
    plane.gates.wait(Waiter("billing", Identity("10.0.0.7", "old-1"), 0.0, session_timeout_s=45.0), lambda: None)
    assert "removed after its session timeout (45 s)" in await waits()


async def test_problems_and_refused_steps_are_told_whether_it_runs_or_is_paused(plane: Plane) -> None:
    await scene(plane)
    await plane.service.migrations.apply(file(groups=["billing", "shipping"]), "ann")
    problem = "a: group 'shipping' is not on the source of link 'l'"

    def told() -> tuple[object, ...]:
        return tuple(one.problems for one in plane.service.numbers().migrations)

    await wait_until_async(lambda: told() == ((problem,),), 30, what="the problem")
    await plane.service.migrations.pause("m", "ann")
    plane.service.migrations.problems.clear()
    await wait_until_async(lambda: told() == ((problem,),), 30, what="the problem of a paused one")
    plane.service.migrations.failures["m"] = {"PROMOTE_TOPICS a: orders": "no"}
    assert plane.service.numbers().migrations[0].refused == {"PROMOTE_TOPICS a: orders": "no"}
    await plane.service.migrations.abort("m", "ann")
    await wait_until_async(lambda: told() == ((),), 30, what="nothing of one that was aborted")


async def test_a_link_that_is_made_anew_while_its_source_is_asked_is_not_acted_on(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene(plane)
    service, link = plane.service.migrations, plane.store.links["l"]
    await service.apply(file(), "ann")
    read = WorldReader.read

    async def reads(self: WorldReader, *args: Any, **more: Any) -> World:
        found = await read(self, *args, **more)
        await plane.by_hand(replace(link, link_id=link.link_id + 1))
        return found

    monkeypatch.setattr(WorldReader, "read", reads)
    with pytest.raises(Conflict, match="made anew"):
        await service.plan_of(plane.store.migrations["m"])
