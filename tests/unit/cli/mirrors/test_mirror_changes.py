"""`mirror create` with what is its own, `delete`, `repair`, dry runs, transition errors."""

from __future__ import annotations

import json

from gateway.state.records import MirrorError, MirrorState
from gateway.state.transition_errors import TransitionErrorCode, with_error
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status


def fails(linked, topic: str = "orders", error: MirrorError = MirrorError.INTERNAL_ERROR) -> None:
    async def by_hand() -> None:
        plane = linked.plane
        record = plane.store.mirrors["l", topic]
        await plane.by_hand(changed(record, state=MirrorState.FAILED, error=error, error_message="partition 0: why"))
        await plane.parts.engine.stop_mirror("l", topic)

    linked.do(by_hand)


def test_create_with_what_is_its_own(linked, run):
    said = ("--config", "delete.retention.ms=7", "--replication-factor", "2", "--start", "0:5", "--link", "l")
    shown = run("mirror", "create", "orders", *said, "--dry-run").stdout
    assert shown.startswith("would create orders from orders: 2 partitions, replication factor 2, mode preserve\n")
    assert "  begins at 5, 0\n" in shown
    assert "  delete.retention.ms=7\n" in shown
    assert run("mirror", "list", "--link", "l").stdout == "link l has no mirror topics\n"

    run("mirror", "create", "orders", *said)
    described = run("mirror", "describe", "orders", "--link", "l").stdout
    assert "delete.retention.ms=7" in described
    assert "Source topic" in described
    assert "KEY=VALUE is expected" in run("mirror", "create", "x", "--config", "a", "--link", "l", code=2).stderr
    bad = run("mirror", "create", "clicks", "--config", "cleanup.policy=compact", "--link", "l", code=1)
    assert "always synced" in bad.stderr


def test_delete_says_what_goes_and_asks(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    fails(linked)
    refused = run("mirror", "delete", "orders", "--link", "l", "--delete-topic", code=2).stderr
    assert "this deletes 1 topic (orders) on the target, with all records: nobody can be asked here" in refused
    assert "orders" in linked.plane.target.existing
    plan = run("mirror", "delete", "orders", "--link", "l", "--delete-topic", "--dry-run")
    assert plan.stderr == "orders (FAILED): the topic on the target and its records\n"
    assert "orders" in linked.plane.target.existing
    assert "use --force" in run("mirror", "delete", "orders", "--link", "l", code=1).stderr
    done = run("mirror", "delete", "orders", "--link", "l", "--delete-topic", "--yes")
    assert done.stdout == "deleted orders and its topic\n"
    assert "orders" not in linked.plane.target.existing


def test_repair_says_what_it_can_and_does_it_after_asking(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    assert "has not FAILED" in run("mirror", "repair", "orders", "--link", "l", code=1).stderr
    fails(linked)
    shown = run("mirror", "repair", "orders", "--link", "l", "--dry-run").stdout
    assert shown.splitlines()[0] == "orders has FAILED: INTERNAL_ERROR: partition 0: why"
    assert "  resume: goes on where the copy ends" in shown
    assert "  translate: not possible: it helps against" in shown
    refused = run("mirror", "repair", "orders", "--link", "l", code=2).stderr
    assert "this repairs orders: resume: goes on where the copy ends" in refused
    assert linked.plane.state() is MirrorState.FAILED
    assert run("mirror", "repair", "orders", "--link", "l", "--yes").stdout == "repaired orders (ACTIVE)\n"


def test_repair_deletes_nothing_unless_it_is_named(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    fails(linked, error=MirrorError.TARGET_DIVERGED)
    refused = run("mirror", "repair", "orders", "--link", "l", "--yes", code=1).stderr
    assert "no repair is possible that deletes nothing; --action recreate deletes its copy" in refused
    done = run("mirror", "repair", "orders", "--link", "l", "--action", "recreate", "--yes", "--no-wait").stdout
    assert done == "repairing orders (PENDING_MIRROR)\n"
    assert "is not one of" in run("mirror", "repair", "orders", "--link", "l", "--action", "x", code=2).stderr


def test_transition_errors(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    shown = run("mirror", "state-transition-error", "list", "orders", "--link", "l").stdout
    assert shown == "no transition errors\n"

    async def by_hand() -> None:
        record = linked.plane.store.mirrors["l", "orders"]
        code = TransitionErrorCode.AUTHENTICATION_ERROR
        await linked.plane.store.put(with_error(record, "reverse", "Bad login.", 7, code))

    linked.do(by_hand)
    listed = run("mirror", "state-transition-error", "list", "orders", "--link", "l", "-o", "json")
    assert json.loads(listed.stdout)["data"][0]["error_code"] == "AUTHENTICATION_ERROR"
    assert "AUTHENTICATION_ERROR" in run("mirror", "describe", "orders", "--link", "l").stdout


def test_a_dry_run_of_a_promote(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    linked.plane.engine.numbers["l", "orders"] = [status(0), status(1)]
    shown = run("mirror", "promote", "orders", "--link", "l", "--dry-run").stdout
    assert shown == "orders (ACTIVE): lag 0, level in 0.0 s\nnothing blocks the promote\n"
    run("mirror", "pause", "orders", "--link", "l")
    blocked = run("mirror", "promote", "orders", "--link", "l", "--dry-run", code=1).stderr
    assert blocked.startswith("blocked: mirror topic 'orders' is PAUSED; resume it first")
    assert linked.plane.state() is MirrorState.PAUSED


def test_reverse_waits_for_the_promote_too(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    plane = linked.plane

    async def level() -> None:
        plane.engine.numbers["l", "orders"] = [status(0), status(1)]
        for cluster in (plane.source, plane.target):
            cluster.existing["orders"].ranges = [(0, 7), (0, 8)]
        plane.promoters.cutover = (7, 8)

    linked.do(level)
    done = run("mirror", "reverse-and-pause-mirror", "--yes", "orders", "--link", "l").stdout
    assert done == "reversed orders (PAUSED)\n"
