"""`lockgate mirror reverse`, `failover` and `truncate-and-restore`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from gateway.cli.output import since
from gateway.state.records import MirrorDirection, MirrorState, Undo
from tests.support.control.control_server import ControlServer
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status
from tests.unit.cli.conftest import Run

S = MirrorState


@pytest.fixture
def stopped(linked: ControlServer, run: Run) -> ControlServer:
    """`orders` as a promote leaves it, level at 100."""
    run("mirror", "create", "orders", "--link", "l")
    plane = linked.plane
    plane.target.existing["orders"].ranges = [(0, 100)] * 2
    record = plane.store.mirrors["l", "orders"]
    done = changed(record, state=S.STOPPED, restore_configs={}, readable=True, cutover_ms=1)
    done = changed(done, stopped_at=(100, 100), stopped_copy_at=(100, 100))
    plane.engine.running.clear()
    linked.do(lambda: plane.store.put(done))
    return linked


def test_reverse_waits_until_the_old_source_follows(stopped, run):
    stopped.plane.engine.numbers["l", "orders"] = [status(0), status(1)]
    assert run("mirror", "reverse", "--yes", "orders", "--link", "l").stdout == "reversed orders (ACTIVE)\n"
    shown = run("mirror", "describe", "orders", "--link", "l").stdout
    assert "from the target back to the source" in shown
    listed = run("mirror", "list", "--link", "l").stdout
    assert "reverse" in listed.splitlines()[-1]


def test_reverse_and_pause(stopped, run):
    assert run("mirror", "reverse", "orders", "--link", "l", "--pause", "--yes").stdout == "reversed orders (PAUSED)\n"


@pytest.mark.parametrize("verb", ["reverse", "reverse-and-start-mirror", "reverse-and-pause-mirror"])
def test_a_reverse_is_not_begun_where_nobody_can_be_asked(stopped, run, verb):
    before = dict(stopped.plane.store.mirrors)
    asked = run("mirror", verb, "orders", "--link", "l", code=2).stderr
    assert "this mirrors 1 topic (orders) of link l back: the source gets what is written on the target" in asked
    assert "--yes goes on without asking" in asked
    assert dict(stopped.plane.store.mirrors) == before


def test_a_reverse_that_promotes_first_says_so(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    asked = run("mirror", "reverse", "orders", "--link", "l", code=2).stderr
    assert "this promotes 1 topic (orders) of link l, and mirrors back what is written then" in asked
    assert "clients write to the target from then on" in asked
    assert linked.plane.promoters.asked == []


def test_what_would_be_refused_is_not_asked_for(stopped, run):
    stopped.plane.source.existing["orders"].ranges = [(0, 104), (0, 100)]
    error = run("mirror", "reverse", "orders", "--link", "l", code=1).stderr
    assert "4 records are on the source and not on the target" in error


def test_reverse_refused_says_how_many_records(stopped, run):
    stopped.plane.source.existing["orders"].ranges = [(0, 104), (0, 100)]
    error = run("mirror", "reverse", "--yes", "orders", "--link", "l", code=1).stderr
    assert "4 records are on the source and not on the target (4 in partition 0)" in error


def test_failover_says_what_is_lost_and_asks(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    plane = linked.plane
    record = plane.store.mirrors["l", "orders"]
    linked.do(lambda: plane.store.put(replace(record, readable=True)))
    plane.engine.numbers["l", "orders"] = [status(0, source_end=107), status(1, source_end=0)]
    plane.target.existing["orders"].ranges = [(0, 100)] * 2
    plane.source.down = True

    refused = run("mirror", "failover", "orders", "--link", "l", code=2)
    foretold = "7 records of partition 0 and an unknown number in partition 1: its end on the source was never seen"
    unseen = "the source is unreachable, so there may be more"
    assert f"orders: {foretold}: on the source, not on the target; {unseen}" in refused.stderr
    assert "this fails over 1 topic (orders) of link l" in refused.stderr
    assert plane.state() is S.ACTIVE  # nobody said yes

    assert run("mirror", "failover", "orders", "--link", "l", "--yes").stdout == "failed over orders (STOPPED)\n"
    assert foretold in run("mirror", "describe", "orders", "--link", "l").stdout
    shown = json.loads(run("mirror", "describe", "orders", "--link", "l", "-o", "json").stdout)
    assert shown["records_not_mirrored"] == {"0": 7, "1": -1}
    assert shown["records_not_mirrored_exact"] is False
    assert "STOPPED already" in run("mirror", "failover", "orders", "--link", "l", "--yes", code=1).stderr


def test_restore_says_what_goes_and_asks(stopped, run):
    plane = stopped.plane
    plane.source.existing["orders"].ranges = [(0, 104), (0, 100)]
    plane.target.existing["orders"].ranges = [(10, 100), (0, 100)]
    plane.engine.numbers["l", "orders"] = [status(0), status(1)]
    refused = run("mirror", "truncate-and-restore", "orders", "--link", "l", code=2).stderr
    assert "this deletes 1 topic (orders) of link l on the source, and fills them anew from the target" in refused
    assert "orders: 4 records that only the failback destination has are thrown away (4 in partition 0)" in refused
    assert "orders: 10 records that the target does not keep any more are thrown away (10 in partition 0)" in refused
    assert "orders: 190 offsets are filled from the target" in refused
    assert plane.source.calls.count("delete_topic") == 0

    done = run("mirror", "truncate-and-restore", "orders", "--link", "l", "--yes").stdout
    assert done == "restored orders (ACTIVE)\n"
    assert plane.source.calls.count("delete_topic") == 1


def test_no_wait(stopped, run):
    out = run("mirror", "reverse", "--yes", "orders", "--link", "l", "--no-wait").stdout
    assert out == "reversing orders (PENDING_SYNCHRONIZE)\n"


@pytest.mark.parametrize("verb", ["reverse", "reverse-and-start-mirror", "reverse-and-pause-mirror"])
def test_a_dry_run_of_a_reverse_compares_and_changes_nothing(stopped, run, verb):
    before = dict(stopped.plane.store.mirrors)
    assert run("mirror", verb, "orders", "--link", "l", "--dry-run").stdout == "would reverse orders\n"
    plan = json.loads(run("mirror", verb, "orders", "--link", "l", "--dry-run", "-o", "json").stdout)
    assert plan["data"][0]["blockers"] == []
    stopped.plane.source.existing["orders"].ranges = [(0, 104), (0, 100)]
    error = run("mirror", verb, "orders", "--link", "l", "--dry-run", code=1).stderr
    assert "4 records are on the source and not on the target" in error
    assert dict(stopped.plane.store.mirrors) == before


def test_a_dry_run_of_a_reverse_says_that_a_promote_comes_first(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    shown = run("mirror", "reverse", "orders", "--link", "l", "--dry-run")
    assert shown.stdout == "would promote and then reverse orders\n"


def kept(server: ControlServer, **more: object) -> None:
    """`orders` is mirrored back by itself, level but for three records."""
    plane = server.plane
    values = {"state": S.ACTIVE, "direction": MirrorDirection.REVERSE, "undo": Undo.OPEN}
    back = changed(plane.store.mirrors["l", "orders"], undo_until_ms=1_900_000_000_000, **{**values, **more})
    plane.engine.numbers["l", "orders"] = [status(0, source_end=103, lag=3), status(1)]

    async def put() -> None:
        await plane.by_hand(back)
        plane.engine.start_mirror(back)

    server.do(put)


def test_describe_says_until_when_and_what_is_at_risk(stopped, run):
    kept(stopped)
    shown = run("mirror", "describe", "orders", "--link", "l").stdout
    (line,) = [each for each in shown.splitlines() if each.startswith("Undo")]
    assert line.split(maxsplit=1)[1].strip() == f"until {since(1_900_000_000_000)}; 3 records at risk"
    told = json.loads(run("mirror", "describe", "orders", "--link", "l", "-o", "json").stdout)["undo"]
    assert told == {"state": "open", "until_time_ms": 1_900_000_000_000, "records_at_risk": 3, "late_records": 0}


def test_describe_tells_of_a_writer_that_stays_while_an_undo_is_open(stopped, run):
    kept(stopped)
    stopped.plane.promoters.after_cutover = {1: 4}
    shown = run("mirror", "describe", "orders", "--link", "l").stdout
    assert "not now: 4 records were written to the source beside the gateway" in shown
    assert "Nobody is known to be left on the source" not in shown
    told = json.loads(run("mirror", "describe", "orders", "--link", "l", "-o", "json").stdout)
    assert (told["undo"]["late_records"], told["records_after_cutover"]) == (4, {"1": 4})


def test_describe_does_not_take_what_nobody_has_measured_for_none(stopped, run):
    kept(stopped)
    stopped.plane.promoters.measured = False
    shown = run("mirror", "describe", "orders", "--link", "l").stdout
    assert "not measured since the present leader leads" in shown
    assert "3 records at risk; whether somebody wrote to the source beside the gateway is not measured yet" in shown
    assert "Nobody is known to be left on the source" not in shown
    told = json.loads(run("mirror", "describe", "orders", "--link", "l", "-o", "json").stdout)
    assert (told["undo"]["late_records"], told["records_after_cutover"]) == (None, None)


@pytest.mark.parametrize("options", [("--dry-run",), ()])
def test_an_undo_is_refused_while_somebody_else_has_written_to_the_source(stopped, run, options):
    kept(stopped)
    stopped.plane.promoters.late_writes = "4 records were written to the source beside the gateway"
    shown = run("mirror", "undo", "--yes", "orders", "--link", "l", *options, code=1)
    assert "4 records were written" in shown.stdout + shown.stderr
    assert not stopped.plane.promoters.asked


def test_undo_asks_for_all_of_them_as_one_set(stopped, run):
    kept(stopped)
    assert "undo the promote of orders" in run("mirror", "undo", "orders", "--link", "l", "--dry-run").stdout
    stopped.plane.promoters.gate = asyncio.Event()
    said = run("mirror", "undo", "--yes", "orders", "--link", "l", "--no-wait").stdout
    assert said == "undoing orders (PENDING_STOPPED)\n"
    assert stopped.plane.promoters.asked == [("l", ("orders",), False)]


def test_late_writes_are_kept_only_where_somebody_says_so(stopped, run):
    kept(stopped)
    plane = stopped.plane
    plane.promoters.late_writes = "3 records were written"
    assert "3 records" in run("mirror", "undo", "--yes", "orders", "--link", "l", "--no-wait", code=1).stderr
    plane.promoters.gate = asyncio.Event()
    keep = ("mirror", "undo", "orders", "--link", "l", "--keep-late-writes")
    assert "would undo" in run(*keep, "--dry-run").stdout
    assert not plane.promoters.kept_late
    run(*keep, "--yes", "--no-wait")
    assert plane.promoters.kept_late


def test_an_undo_that_somebody_has_ended_says_so(stopped, run):
    kept(stopped, state=S.STOPPED, direction=MirrorDirection.FORWARD)
    assert "ended by somebody" in run("mirror", "describe", "orders", "--link", "l").stdout


def test_an_undo_that_is_over_says_so(stopped, run):
    kept(stopped, state=S.STOPPED, direction=MirrorDirection.FORWARD, undo=Undo.OVER)
    assert f"over since {since(1_900_000_000_000)}" in run("mirror", "describe", "orders", "--link", "l").stdout
    assert "the time for it is over" in run("mirror", "undo", "--yes", "orders", "--link", "l", code=1).stderr
