from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

from gateway.api import paging
from gateway.cli import consent, waiting
from gateway.cli.main import app
from gateway.cli.mirrors import mirror_promote
from gateway.errors import Conflict
from gateway.kafka.groups import GroupView, MemberView
from gateway.kafka.logs.log_excerpt import RecordExcerpt, Shortened
from gateway.migration.rules.file import parsed
from gateway.state.records import MirrorDirection, MirrorState
from gateway.topics.catch_up import CatchUp, JobState
from tests.support.control.control_plane import SOURCE
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status


def test_several_topics_and_what_was_refused(linked, run):
    result = run("mirror", "create", "orders", "nope", "clicks", "orders", "--link", "l", code=1)

    assert result.stdout == "created orders (ACTIVE)\ncreated clicks (ACTIVE)\n"
    assert result.stderr == "error: topic 'nope' does not exist on the source of link 'l'\n"


def test_pause_resume_and_wrong_states(linked, run):
    run("mirror", "create", "orders", "clicks", "--link", "l")

    assert run("mirror", "pause", "orders", "clicks", "--link", "l").stdout == (
        "paused orders (PAUSED)\npaused clicks (PAUSED)\n"
    )
    assert run("mirror", "pause", "orders", "--link", "l", code=1).stderr == (
        "error: mirror topic 'orders' is already PAUSED\n"
    )
    resumed = json.loads(run("mirror", "resume", "orders", "--link", "l", "-o", "json").stdout)
    assert [mirror["mirror_status"] for mirror in resumed["data"]] == ["ACTIVE"]


def test_an_offset_of_a_mirror_topic(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    asked = ("mirror", "translate-offset", "orders", "--link", "l", "--partition", "0", "--offset")

    assert run(*asked, "7").stdout == "source offset 7 is target offset 7 (exact)\n"
    assert run(*asked, "7", "--reverse").stdout == "target offset 7 is source offset 7 (exact)\n"
    other = ("mirror", "translate-offset", "orders", "--link", "l", "--partition", "9", "--offset", "1")
    assert "has no offset 1 in partition 9" in run(*other, code=1).stderr


def test_list(linked, run):
    assert run("mirror", "list", "--link", "l").stdout == "link l has no mirror topics\n"
    run("mirror", "create", "orders", "clicks", "--link", "l")
    linked.plane.engine.numbers["l", "orders"] = [
        status(0, lag=2, lag_ms=40, bytes_per_s=1_500_000.0),
        status(1, lag=3, lag_ms=7, bytes_per_s=1_000_000.0),
    ]
    run("mirror", "pause", "clicks", "--link", "l")

    lines = run("mirror", "list", "--link", "l").stdout.splitlines()
    assert lines[2].split()[:9] == ["orders", "ACTIVE", "5", "40", "forward", "2.5", "MB/s", "2", "preserve"]
    paused = run("mirror", "list", "--link", "l", "--mirror-status", "paused").stdout
    assert [line.split()[0] for line in paused.splitlines()[1:]] == ["clicks"]
    assert "--mirror-status" in run("mirror", "list", "--link", "l", "--mirror-status", "green", code=2).stderr


def test_list_is_whole_however_long(linked, run, monkeypatch):
    """Page by page: what is shown is as it were one answer."""
    monkeypatch.setattr(paging, "HEAVIEST", 1)
    run("mirror", "create", "orders", "clicks", "--link", "l")
    listed = json.loads(run("mirror", "list", "--link", "l", "-o", "json").stdout)
    assert listed.keys() == {"kind", "data"}
    assert [one["mirror_topic_name"] for one in listed["data"]] == ["clicks", "orders"]
    assert len(run("mirror", "list").stdout.splitlines()) == 3


def test_list_of_all_links(linked, run):
    run("link", "create", "m", "--bootstrap", SOURCE, "--set", "link.prefix=m.")
    assert run("mirror", "list").stdout == "no mirror topics\n"
    run("mirror", "create", "orders", "--link", "l")
    run("mirror", "create", "m.clicks", "--link", "m")

    lines = run("mirror", "list").stdout.splitlines()
    assert [(line.split()[0], line.split()[-1]) for line in lines] == [
        ("Mirror", "Link"),
        ("orders", "l"),
        ("m.clicks", "m"),
    ]
    shown = json.loads(run("mirror", "list", "-o", "json").stdout)["data"]
    assert [mirror["link_name"] for mirror in shown] == ["l", "m"]
    assert "Link" not in run("mirror", "list", "--link", "l").stdout


def test_what_is_not_known_yet_is_no_lag(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    linked.plane.engine.numbers["l", "orders"] = [
        status(0),
        status(1, source_end=None, mirrored_to=0, lag=None, lag_ms=None),
    ]
    assert run("mirror", "list", "--link", "l").stdout.splitlines()[1].split()[2:4] == ["?", "?"]
    (row,) = (line for line in run("mirror", "describe", "orders", "--link", "l").stdout.splitlines() if " ? " in line)
    assert row.split()[:6] == ["1", "copying", "?", "?", "?", "0"]


def test_describe_shows_the_job_that_copies(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    progress = CatchUp(
        job="job-1",
        by="spark",
        records_done=25,
        records_total=100,
        bytes_done=0,
        bytes_total=0,
        bytes_per_s=5e7,
        eta_s=130.0,
    )
    linked.do(lambda: linked.plane.service.catch_ups.report("l", "job-1", JobState.RUNNING, {"orders": progress}))

    shown = run("mirror", "describe", "orders", "--link", "l").stdout

    assert "CATCHING_UP" in shown
    assert "by spark job job-1: 25.0 %, 50.0 MB/s, 2 min 10 s to go" in shown
    assert "CATCHING_UP" in run("mirror", "list", "--link", "l").stdout


def test_describe(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    linked.plane.engine.numbers["l", "orders"] = [
        status(0, bypassed_last_minute=9, queued_bytes=3_000_000),
        status(1, last_error="slow disk", waits_for="waiting for transaction of producer id 9"),
    ]
    member = MemberView(member_id="m", client_id="billing", host="/10.1.1.1", subscribed=frozenset({"orders"}))
    linked.plane.source.groups["g"] = GroupView(
        group="g", state="Stable", type="classic", protocol_type="consumer", members=(member,)
    )

    shown = run("mirror", "describe", "orders", "--link", "l").stdout

    for words in (
        "ACTIVE",
        "preserve (",
        "slow disk",
        "Partition 1: waiting for transaction of producer id 9",
        "In memory, not known to be on the target yet: 3.0 MB",
        "9 records of the last minute",
        "billing",
        "/10.1.1.1",
    ):
        assert words in shown
    answer = json.loads(run("mirror", "describe", "orders", "--link", "l", "-o", "json").stdout)
    assert answer["clients_not_migrated"]["readers"] == [{"group": "g", "client_id": "billing", "host": "/10.1.1.1"}]


def test_describe_when_everybody_has_moved(linked, run):
    run("mirror", "create", "orders", "--link", "l")

    assert "Nobody is known to be left on the source." in run("mirror", "describe", "orders", "--link", "l").stdout


def test_create_and_wait_ends_when_what_was_there_is_copied(linked, run, monkeypatch):
    plane = linked.plane
    ends = iter([0, 60, 99, 100])

    def tick(_: float) -> None:
        # The source goes on growing: the wait is for what was there at its beginning.
        to = next(ends)
        end = 500 if to else 100
        plane.engine.numbers["l", "orders"] = [
            status(index, source_end=end, mirrored_to=to, lag=end - to) for index in (0, 1)
        ]

    plane.engine.numbers["l", "orders"] = [status(index, source_end=None, mirrored_to=0, lag=None) for index in (0, 1)]
    monkeypatch.setattr(waiting, "_sleep", tick)

    result = run("mirror", "create", "orders", "--link", "l", "--wait")

    assert result.stdout == "created orders (ACTIVE)\n"
    assert next(ends, None) is None


def test_wait_ends_with_1_when_the_mirror_fails(linked, run, monkeypatch):
    plane = linked.plane
    plane.engine.numbers["l", "orders"] = [status(0, mirrored_to=0, lag=100)]

    async def fail() -> None:
        from gateway.state.records import MirrorError

        plane.service.events.partition_failed("l", "orders", 0, MirrorError.OFFSET_GAP, "gap at 7")
        await plane.service.events.reconcile()

    monkeypatch.setattr(waiting, "_sleep", lambda _: linked.do(fail))
    result = run("mirror", "create", "orders", "--link", "l", "--wait", code=1)

    assert result.stderr == "error: mirror topic orders is FAILED: partition 0: gap at 7\n"


def test_promote_waits_for_the_end(linked, run):
    run("mirror", "create", "orders", "clicks", "--link", "l")

    result = run("mirror", "promote", "--yes", "orders", "clicks", "--link", "l")

    assert result.stdout == "orders: written on the target\nclicks: written on the target\n"
    assert linked.plane.promoters.asked == [("l", ("orders", "clicks"), False)]


def test_promote_asked_again_changes_nothing_and_says_what_is(linked, run):
    """Arrow-up and Enter: what is mirrored back by then must not go home."""
    run("mirror", "create", "orders", "clicks", "--link", "l")
    run("mirror", "promote", "--yes", "orders", "--link", "l")
    assert run("mirror", "promote", "--yes", "orders", "--link", "l").stdout == (
        "orders: already written on the target\n"
    )
    mirrored_back(linked, "orders")
    before = dict(linked.plane.store.mirrors)
    again = run("mirror", "promote", "--yes", "orders", "--link", "l")
    assert again.stdout == "orders: already written on the target; the source follows\n"
    assert dict(linked.plane.store.mirrors) == before
    rest = run("mirror", "promote", "--yes", "orders", "clicks", "--link", "l")
    assert (rest.stdout, rest.stderr) == (
        "clicks: written on the target\n",
        "orders: already written on the target; the source follows\n",
    )
    assert linked.plane.promoters.asked == [("l", ("orders",), False), ("l", ("clicks",), False)]


def test_home_goes_who_says_so(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    said = run("mirror", "promote", "--yes", "orders", "--link", "l", "--failback").stdout
    assert said == "orders: already written on the source; the target follows\n"
    mirrored_back(linked, "orders")
    linked.plane.promoters.gate = asyncio.Event()
    begun = run("mirror", "promote", "--yes", "orders", "--link", "l", "--failback", "--no-wait").stdout
    assert begun == "orders: the promote has begun (PENDING_STOPPED)\n"
    assert linked.plane.promoters.asked == [("l", ("orders",), False)]
    assert (
        "--failback goes without"
        in run("mirror", "promote", "orders", "--link", "l", "--failback", "--rehearse", code=2).stderr
    )


def test_what_changes_sides_is_asked_for_and_refused_in_a_pipe_without_yes(linked, run):
    run("mirror", "create", "orders", "clicks", "--link", "l")
    refused = run("mirror", "promote", "orders", "clicks", "--link", "l", "--groups", "billing", code=2)
    assert refused.stderr == (
        "error: this promotes 2 topics (orders, clicks) of link l with 1 group(s) (billing); clients write to the "
        "target from then on: nobody can be asked here, so nothing was changed; --yes goes on without asking\n"
    )
    assert "this promotes group billing" in run("group", "promote", "billing", "--link", "l", code=2).stderr
    mirrored_back(linked, "orders")
    home = run("mirror", "promote", "orders", "--failback", "--link", "l", code=2).stderr
    assert "this takes home 1 topic (orders) of link l; clients write to the source from then on" in home
    assert "this takes 1 topic (orders) of link l home" in run("mirror", "undo", "orders", "--link", "l", code=2).stderr
    assert linked.plane.promoters.asked == []


@pytest.mark.parametrize(("typed", "code", "state"), [("l\n", 0, "STOPPED"), ("y\n", 1, "ACTIVE"), ("\n", 1, "ACTIVE")])
def test_on_a_terminal_the_name_of_the_link_is_typed(linked, run, monkeypatch, typed, code, state):
    run("mirror", "create", "orders", "--link", "l")
    monkeypatch.setattr(consent, "_is_terminal", lambda: True)
    result = CliRunner().invoke(app, ["mirror", "promote", "orders", "--link", "l"], input=typed)
    assert result.exit_code == code, result.output
    assert "this promotes 1 topic (orders) of link l" in result.stderr
    assert "Type l to go on" in result.stderr
    assert linked.plane.state("orders").value == state


def test_a_topic_that_turned_round_meanwhile_is_refused(linked, run, monkeypatch):
    """Between the look and the promote: the gateway holds the direction against the record."""
    run("mirror", "create", "orders", "--link", "l")
    look = mirror_promote._already

    def and_turns(*args, **more):
        found = look(*args, **more)
        mirrored_back(linked, "orders")
        return found

    monkeypatch.setattr(mirror_promote, "_already", and_turns)
    refused = run("mirror", "promote", "--yes", "orders", "--link", "l", code=1)
    assert "is written on the target already, and mirrored back to the source (ACTIVE)" in refused.stderr
    assert linked.plane.promoters.asked == []


def mirrored_back(linked, name):
    async def turn() -> None:
        mirror = linked.plane.store.mirrors["l", name]
        values = {"direction": MirrorDirection.REVERSE, "state": MirrorState.ACTIVE}
        await linked.plane.by_hand(changed(mirror, stopped_at=(100,) * len(mirror.starts), **values))
        await linked.plane.service._sync.run_due()  # which would write to the record in the middle of the test

    linked.do(turn)


def test_ctrl_c_says_that_it_goes_on(linked, run, monkeypatch):
    run("mirror", "create", "orders", "--link", "l")
    linked.plane.promoters.gate = asyncio.Event()

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(waiting, "_sleep", interrupt)
    told = run("mirror", "promote", "--yes", "orders", "--link", "l", code=130).stderr
    assert told == (
        "the promote of orders goes on in the gateway; call it off with: "
        "lockgate mirror promote orders --cancel --link l\n"
    )
    assert "failover" not in told

    async def go_on() -> None:
        linked.plane.promoters.gate.set()

    linked.do(go_on)


def being_promoted(linked, name, **values):
    async def turn() -> None:
        await linked.plane.by_hand(
            changed(linked.plane.store.mirrors["l", name], state=MirrorState.PENDING_STOPPED, **values)
        )

    linked.do(turn)


def test_a_promote_is_called_off_with_all_of_its_set(linked, run):
    run("mirror", "create", "orders", "clicks", "--link", "l")
    for name in ("orders", "clicks"):
        being_promoted(linked, name, promoted_with=("orders", "clicks"))
    asked = ("mirror", "promote", "orders", "--cancel", "--link", "l")

    told = run(*asked, "--dry-run").stdout
    assert told == "orders: its promote would be called off\nclicks: its promote would be called off\n"
    assert linked.plane.state("orders") is MirrorState.PENDING_STOPPED

    told = run(*asked).stdout
    assert told == (
        "orders: written on the source; the target follows\nclicks: written on the source; the target follows\n"
    )
    assert linked.plane.state("clicks") is MirrorState.ACTIVE

    again = run(*asked, code=1).stderr
    assert again == "error: mirror topic 'orders' is not being promoted: it is ACTIVE, and written on the source\n"
    assert "--cancel goes with --dry-run alone" in run(*asked, "--failback", code=2).stderr


def test_what_has_cut_over_is_not_called_off(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    run("mirror", "promote", "--yes", "orders", "--link", "l")
    refused = run("mirror", "promote", "orders", "--cancel", "--link", "l", code=1).stderr
    assert refused == (
        "error: mirror topic 'orders' is promoted already, and written on the target (STOPPED); to go back: "
        "lockgate mirror reverse orders --link l\n"
    )


def test_a_migration_that_would_promote_again_is_paused_and_named(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    being_promoted(linked, "orders")

    async def apply() -> None:
        file = {"migration": "m", "link": "l", "applications": [{"name": "a", "topics": ["orders"]}]}
        await linked.plane.service.migrations.apply(parsed(file), "ann")

    linked.do(apply)
    told = run("mirror", "promote", "orders", "--cancel", "--link", "l").stderr
    assert told == "migration m paused: it would promote them again; lockgate migration resume m\n"


def test_promote_takes_groups_along(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    run("mirror", "promote", "--yes", "orders", "--link", "l", "--groups", "billing, audit")
    assert linked.plane.promoters.along == [(("orders",), ("billing", "audit"))]
    for other in ("--force", "--rehearse"):
        result = run("mirror", "promote", "--yes", "orders", "--link", "l", "--groups", "billing", other, code=2)
        assert "--groups goes with neither --rehearse nor --force" in result.stderr


def test_promote_without_waiting(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    linked.plane.promoters.gate = asyncio.Event()

    result = run("mirror", "promote", "--yes", "orders", "--link", "l", "--no-wait", "--force")

    assert result.stdout == "orders: the promote has begun (PENDING_STOPPED)\n"
    assert linked.plane.promoters.asked == [("l", ("orders",), True)]

    async def go_on() -> None:
        linked.plane.promoters.gate.set()

    linked.do(go_on)


def test_promote_that_is_aborted_is_1(linked, run, monkeypatch):
    run("mirror", "create", "orders", "--link", "l")
    linked.plane.promoters.gate = asyncio.Event()
    linked.plane.promoters.refusal = Conflict("orders-0: records 10 to 12 bypassed the gateway")

    async def go_on() -> None:
        linked.plane.promoters.gate.set()

    monkeypatch.setattr(waiting, "_sleep", lambda _: linked.do(go_on))
    result = run("mirror", "promote", "--yes", "orders", "--link", "l", code=1)

    assert result.stderr == "error: orders: orders-0: records 10 to 12 bypassed the gateway\n"
    assert "promoted orders" not in result.stdout


def test_promote_refused_at_once_is_1_and_nothing_is_promoted(linked, run):
    run("mirror", "create", "orders", "clicks", "--link", "l")
    run("mirror", "pause", "clicks", "--link", "l")

    result = run("mirror", "promote", "--yes", "orders", "clicks", "--link", "l", code=1)

    assert (result.stdout, result.stderr) == (
        "",
        "error: mirror topic 'clicks' is PAUSED; resume it first, so that it can catch up\n",
    )
    assert linked.plane.promoters.asked == []


def test_topics_are_needed(run):
    assert "topics" in run("mirror", "create", "--link", "l", code=2).stderr.lower()


def test_messages_of_both_clusters(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    for cluster, value in ((linked.plane.source, b"one"), (linked.plane.target, b"other")):
        cluster.existing["orders"].ranges[0] = (0, 3)
        cluster.records["orders", 0] = [
            RecordExcerpt(0, 0, None, Shortened(5, b"same"), 0, 1),
            RecordExcerpt(1, 1000, Shortened(1, b"k"), Shortened(3, value), 0, hash(value)),
        ]
    linked.plane.target.records["orders", 0].append(RecordExcerpt(2, 0, None, None, 0, 0, "a control batch"))
    shown = run("mirror", "messages", "orders", "--link", "l", "--offset", "0", "--count", "5")
    assert shown.stderr == "source: offsets 0 to 3 (not in it)\ntarget: offsets 0 to 3 (not in it)\n"
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert rows[1] == ["source", "0", "1970-01-01T00:00:00.000+00:00", "null", "same…", "(5", "bytes)", "yes"]
    assert [row[0] for row in rows[1:]] == ["source", "target", "source", "target", "target"]
    assert [row[-1] for row in rows[3:5]] == ["NO", "NO"]
    assert shown.stdout.splitlines()[-1].split()[-5:] == ["(a", "control", "batch)", "one", "side"]
    as_json = json.loads(run("mirror", "messages", "orders", "--link", "l", "--offset", "0", "-o", "json").stdout)
    assert [pair["is_equal"] for pair in as_json["data"]] == [True, False, False]
    assert "equal to 100" in run("mirror", "messages", "orders", "--link", "l", "--count", "101", code=2).stderr
