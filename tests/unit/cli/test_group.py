from __future__ import annotations

import json

from gateway.errors import Conflict
from gateway.groups.gate.rules.gates import Identity, Waiter
from gateway.groups.rules.offset_sync_status import OffsetSyncStatus
from gateway.kafka.commits import Committed
from gateway.kafka.groups import GroupView, MemberView


def with_group(linked, name: str = "g") -> None:
    member = MemberView(member_id="m", client_id="billing", host="/10.1.1.1", subscribed=frozenset({"orders"}))
    linked.plane.source.groups[name] = GroupView(
        group=name, state="Stable", type="classic", protocol_type="consumer", members=(member,)
    )
    linked.plane.source.offsets[name] = {("orders", 0): Committed(42, -1, "")}


def test_a_groups_life(linked, run):
    with_group(linked)
    assert run("group", "list", "--link", "l").stdout == "link l has no mirror groups\n"
    assert run("group", "create", "g", "--link", "l").stdout == "created g (ACTIVE)\n"

    async def wait() -> None:
        linked.plane.gates.wait(Waiter("g", Identity("10.9.9.9", "billing-new"), since=0.0), lambda: None)

    linked.do(wait)
    linked.plane.promoters.waits = "1 member on the source"
    _, shown, _, remark = run("group", "list", "--link", "l").stdout.splitlines()
    row = shown.split()
    assert (row[:4], remark) == (["g", "ACTIVE", "1", "1"], "g: 1 member on the source")
    shown = run("group", "describe", "g", "--link", "l").stdout
    for words in ("Stable", "billing", "/10.1.1.1", "waiting", "billing-new", "42"):
        assert words in shown
    assert run("group", "promote", "--yes", "g", "--link", "l").stdout == "promoted g (PROMOTED)\n"
    assert "again after the promote" in run("group", "describe", "g", "--link", "l").stdout
    assert run("group", "demote", "g", "--link", "l").stdout == "demoted g (ACTIVE)\n"


def test_the_offset_sync_is_shown(linked, run):
    with_group(linked)
    run("group", "create", "g", "--link", "l")
    status = OffsetSyncStatus(synced_ms=1, behind=30, held_back=(("orders", 2),), error="no answer in time")
    linked.plane.service.group_reports.offset_sync["l", "g"] = status

    shown = run("group", "describe", "g", "--link", "l").stdout

    for words in ("30 records behind the group", "not lowered here: orders-2", "no answer in time"):
        assert words in shown


def test_names_of_all_kinds(linked, run):
    with_group(linked, "team/a b:promote")

    run("group", "create", "team/a b:promote", "--link", "l")
    answer = json.loads(run("group", "promote", "--yes", "team/a b:promote", "--link", "l", "-o", "json").stdout)

    assert (answer["group"], answer["state"]) == ("team/a b:promote", "PROMOTED")


def test_refusals(linked, run):
    assert "group 'g' does not exist on the source" in run("group", "create", "g", "--link", "l", code=1).stderr
    assert "no mirror group 'g'" in run("group", "describe", "g", "--link", "l", code=1).stderr
    with_group(linked)
    run("group", "create", "g", "--link", "l")
    linked.plane.promoters.refusal = Conflict("group 'g' has 1 member on the source: billing at /10.1.1.1")
    result = run("group", "promote", "--yes", "g", "--link", "l", code=1)
    assert result.stderr == "error: group 'g' has 1 member on the source: billing at /10.1.1.1\n"


def test_a_source_that_does_not_answer(linked, run):
    with_group(linked)
    run("group", "create", "g", "--link", "l")
    linked.plane.source.down = True

    assert run("group", "list", "--link", "l").stdout.splitlines()[1].split()[2] == "?"
    assert "unknown: " in run("group", "describe", "g", "--link", "l").stdout


def test_a_dry_run_changes_nothing(linked, run):
    with_group(linked)
    assert run("group", "create", "g", "--link", "l", "--dry-run").stdout == "would create g (ACTIVE)\n"
    assert not linked.plane.store.groups
    run("group", "create", "g", "--link", "l")
    before = dict(linked.plane.store.groups)
    linked.plane.promoters.waits = "the mirror of orders-0 has come to 3"
    assert run("group", "promote", "g", "--link", "l", "--dry-run").stdout == (
        "would promote g (ACTIVE)\n  would wait for: the mirror of orders-0 has come to 3\n"
    )
    linked.plane.promoters.refusal = Conflict("group 'g' is ACTIVE, not PROMOTED")
    refused = run("group", "demote", "g", "--link", "l", "--dry-run", code=1)
    assert (refused.stdout, refused.stderr) == ("", "error: group 'g' is ACTIVE, not PROMOTED\n")
    plan = json.loads(run("group", "demote", "g", "--link", "l", "--dry-run", "-o", "json", code=1).stdout)
    assert (plan["kind"], plan["operation"], plan["blockers"]) == (
        "LockgateGroupPlan",
        "demote",
        ["group 'g' is ACTIVE, not PROMOTED"],
    )
    assert dict(linked.plane.store.groups) == before


def test_members_that_did_not_leave_are_removed_when_somebody_says_so(linked, run):
    with_group(linked)
    run("group", "create", "g", "--link", "l")
    assert "no member" in run("group", "remove-members", "g", "--link", "l").stderr

    async def wait() -> None:
        who = Identity("10.9.9.9", "billing")
        linked.plane.gates.wait(Waiter("g", who, since=0.0, session_timeout_s=45.0), lambda: None)

    linked.do(wait)
    shown = run("group", "describe", "g", "--link", "l").stdout
    assert "1 member(s) on the source did not leave" in shown
    assert "within their session timeout (45 s)" in shown
    row = run("group", "remove-members", "g", "--link", "l", "--dry-run").stdout.splitlines()[1]
    assert row.split()[-5:] == ["yes", "45", "s", "would", "be"]
    refused = run("group", "remove-members", "g", "--link", "l", code=2).stderr
    assert "this removes 1 member of g on the source, who must be gone" in refused
    assert linked.plane.source.groups["g"].members, "nobody has said yes"
    run("group", "remove-members", "g", "--link", "l", "--yes")
    assert not linked.plane.source.groups["g"].members
