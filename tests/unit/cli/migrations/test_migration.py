"""`lockgate migration`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gateway.cli import consent
from gateway.cli.main import app
from gateway.errors import Conflict
from gateway.migration.rules.client_errors import TOPIC, AnswerCount, ClientErrors, Failure, Name
from gateway.migration.rules.snapshot import SourceSnapshot, TopicSeen
from gateway.state.records import MirrorDirection, Undo
from protocol.errors import ErrorCode
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status
from tests.support.waiting import wait_until

FILE = {"migration": "m", "link": "l", "applications": [{"name": "a", "topics": ["orders"], "until": "mirrored"}]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump(FILE))
    return path


def test_a_dry_run_is_a_diff_and_changes_nothing(linked, run, file):
    lines = run("migration", "apply", str(file), "--dry-run").stdout.splitlines()
    assert lines[0] == "+ a: mirror topic orders"
    assert lines[1].split()[:3] == ["a:", "until", "mirrored;"]
    assert lines[-1] == "1 step(s) left"
    assert run("migration", "list").stdout == "there are no migrations\n"


def test_apply_status_pause_abort_delete(linked, run, file):
    said = run("migration", "apply", str(file)).stdout
    assert "applied m (RUNNING)" in said
    assert run("migration", "list").stdout.splitlines()[1].split()[:3] == ["m", "RUNNING", "l"]
    shown = run("migration", "status", "m").stdout
    assert "APPLIED" in shown
    assert json.loads(run("migration", "status", "m", "-o", "json").stdout)["file"] == FILE
    linked.plane.source.down = True
    file.write_text(yaml.safe_dump(FILE | {"applications": [{"name": "a", "topics": ["o*"]}]}))
    assert "what it means beside, which is not known now" in run("migration", "apply", str(file), code=2).stderr
    assert "the source of link 'l'" in run("migration", "apply", str(file), "--yes", code=1).stderr
    assert run("migration", "pause", "m", "--dry-run").stdout == "would pause m (PAUSED)\n"
    assert run("migration", "pause", "m").stdout == "paused m (PAUSED)\n"
    assert run("migration", "resume", "m", "--yes").stdout == "resumed m (RUNNING)\n"
    assert "is RUNNING" in run("migration", "delete", "m", code=1).stderr
    assert run("migration", "abort", "m").stdout == "aborted m (ABORTED)\n"
    assert run("migration", "delete", "m").stdout == "deleted m\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("migration: m", "is required"),
        ("a: [", "not YAML"),
        ("- 1", "holds a mapping"),
        (yaml.safe_dump(FILE | {"colour": "red"}), "colour: unknown key"),
    ],
)
def test_a_file_that_cannot_be_is_wrong_usage(run, file, text, words):
    file.write_text(text)
    said = run("migration", "apply", str(file), code=2).stderr
    assert words in said
    assert all(line.startswith(f"error: {file}:") for line in said.splitlines())
    assert "No such file" in run("migration", "apply", str(file.with_name("none")), code=2).stderr


def test_problems_end_it_with_1(linked, run, file):
    file.write_text(yaml.safe_dump(FILE | {"applications": [{"name": "a", "topics": ["nosuch"]}]}))
    assert "a: topic 'nosuch' is not on the source" in run("migration", "apply", str(file), "--dry-run", code=1).stderr


def test_the_schema_is_json(run):
    assert json.loads(run("migration", "schema").stdout)["required"] == ["migration", "link", "applications"]


def test_a_link_that_is_not_there(linked, run, file):
    assert run("migration", "discover", "--link", "x", code=1).stderr == "error: link 'x' does not exist\n"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_o_is_the_format_of_a_discovery_and_writes_no_file(linked, run, tmp_path, monkeypatch, form):
    async def seen(*_: object) -> SourceSnapshot:
        return SourceSnapshot(topics=(TopicSeen(name="orders"),))

    monkeypatch.setattr(linked.plane.service.discovery, "_read", seen)
    monkeypatch.chdir(tmp_path)
    told = yaml.safe_load(run("migration", "discover", "--link", "l", "-o", form).stdout)
    assert {"sets", "file"} <= told.keys()
    assert list(tmp_path.iterdir()) == []
    assert run("migration", "discover", "--link", "l", "-f", "draft.yaml").exit_code == 0
    assert yaml.safe_load((tmp_path / "draft.yaml").read_text()) == yaml.safe_load(told["file"])


async def nothing_open(access):
    return []


def test_ready_ends_with_1_while_something_blocks(linked, run, file):
    linked.plane.service.readiness._transactions = nothing_open
    run("migration", "apply", str(file))
    wait_until(lambda: linked.plane.store.mirrors, 10.0, what="its mirror")
    run("migration", "ready", "m")
    linked.plane.source.down = True
    said = run("migration", "ready", "m", code=1).stdout
    assert said.startswith("readiness ")
    assert "orders" in said
    assert json.loads(run("migration", "ready", "--link", "l", "-o", "json", code=1).stdout)["applications"]
    assert "name a migration" in run("migration", "ready", code=2).stderr


def test_a_rehearsal_says_the_pause_and_who_waited(linked, run, file):
    run("mirror", "create", "orders", "--link", "l")
    wait_until(lambda: "ACTIVE" in run("mirror", "list", "--link", "l").stdout)
    assert run("mirror", "promote", "orders", "--link", "l", "--rehearse", "--dry-run").stdout == (
        "would rehearse the promote of orders\n"
    )
    said = run("mirror", "promote", "orders", "--link", "l", "--rehearse", "--bound-ms", "500").stdout.splitlines()
    assert said[0] == "rehearsed orders: writes were paused for 50 ms; nothing has changed sides"
    assert said[2].split() == ["app", "10.0.0.7", "40"]
    assert linked.plane.promoters.rehearsed == [("l", ("orders",), 0.5)]
    assert (
        "--bound-ms is of --rehearse"
        in run("mirror", "promote", "--yes", "orders", "--link", "l", "--bound-ms", "5", code=2).stderr
    )
    run("migration", "apply", str(file))
    assert run("migration", "rehearse", "m").stdout.splitlines()[:2] == ["a:", said[0]]
    linked.plane.promoters.refusal = Conflict("it is being promoted already")
    assert "a: it is being promoted already" in run("migration", "rehearse", "m", code=1).stderr


def test_status_has_the_errors_of_clients_and_the_bound(linked, run, file, monkeypatch):
    file.write_text(yaml.safe_dump(FILE | {"stop_when": {"client_errors_percent": 2.5}}))

    def told() -> str:
        words = " ".join(run("migration", "status", "m").stdout.split())
        return words.partition("Client errors ")[2].partition(" Application ")[0]

    found = None
    monkeypatch.setattr(linked.plane.service.migrations._world, "_client_errors", lambda _: found)
    run("migration", "apply", str(file))
    assert told() == "not known yet; 2.5 % at most"
    found = ClientErrors()
    assert told() == "not known: only 0 answers looked at in 60 s; 2.5 % at most"
    denied = Failure(int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 30, "ann")
    found = ClientErrors({Name(TOPIC, "orders"): AnswerCount(800, 300, 80, 30, (denied,))}, unheard=("b",))
    assert told() == (
        "37.5 % of 80 answers looked at in 60 s; 2.5 % at most; "
        "topic 'orders': 30 x TOPIC_AUTHORIZATION_FAILED, client 'ann'; 1 gateway(s) have not told"
    )
    seen = json.loads(run("migration", "status", "m", "-o", "json").stdout)["client_errors"]
    assert seen["failing"] == [
        {
            "kind": "topic",
            "name": "orders",
            "percent": 37.5,
            "answers_looked_at": 80,
            "errors_seen": 30,
            "error": "TOPIC_AUTHORIZATION_FAILED",
            "client_id": "ann",
        }
    ]
    file.write_text(yaml.safe_dump(FILE))
    run("migration", "apply", str(file))
    assert "Client errors" not in run("migration", "status", "m").stdout
    assert json.loads(run("migration", "status", "m", "-o", "json").stdout)["client_errors"] is None


def test_undo_by_name_or_by_file_and_what_status_says(linked, run, file):
    file.write_text(yaml.safe_dump(FILE | {"applications": [{"name": "a", "topics": ["orders"], "until": "promoted"}]}))
    run("mirror", "create", "orders", "--link", "l")
    plane = linked.plane
    plane.engine.numbers["l", "orders"] = [status(0), status(1)]
    values = {"direction": MirrorDirection.REVERSE, "undo": Undo.OPEN, "undo_until_ms": 1_900_000_000_000}
    back = changed(plane.store.mirrors["l", "orders"], stopped_at=(100, 100), readable=True, **values)

    async def put() -> None:
        await plane.by_hand(back)

    linked.do(put)
    run("migration", "apply", str(file))
    told = json.loads(run("migration", "status", "m", "-o", "json").stdout)["applications"][0]
    assert (told["stage"], told["undo"]["open"], told["undo"]["records_at_risk"]) == ("PROMOTED", 1, 0)
    assert "0 records at risk" in " ".join(run("migration", "status", "m").stdout.split())
    assert run("migration", "undo", "m", "--dry-run").stdout == "would take home orders\n"
    asked = run("migration", "undo", "m", code=2).stderr
    assert "this takes 1 topic (orders) of migration m home; clients write to the source from then on" in asked
    assert plane.promoters.asked == []
    plane.promoters.gate = asyncio.Event()
    said = run("migration", "undo", "--yes", str(file), "--keep-late-writes", "--no-wait").stdout.splitlines()
    assert plane.promoters.kept_late
    assert said == ["going home: orders", "migration m is PAUSED; lockgate migration resume m promotes again"]
    assert "on its way home already" in run("migration", "undo", "--yes", "m", code=1).stderr
    assert "there is no migration 'x'" in run("migration", "undo", "x", code=1).stderr


PROMOTES = FILE | {"applications": [{"name": "a", "topics": ["orders", "clicks"]}]}


def test_what_changes_sides_is_not_applied_in_a_pipe_without_yes(linked, run, file):
    file.write_text(yaml.safe_dump(PROMOTES))
    refused = run("migration", "apply", str(file), code=2)
    assert refused.stderr == (
        "error: migration m promotes 2 topic(s) (clicks, orders), each when nothing holds it: "
        "nobody can be asked here, so nothing was changed; --yes goes on without asking\n"
    )
    assert "~ a: promote topics clicks, orders" in refused.stdout
    assert not linked.plane.store.migrations
    run("migration", "apply", str(file), "--yes")
    run("migration", "pause", "m")
    assert "nobody can be asked" in run("migration", "resume", "m", code=2).stderr
    run("migration", "resume", "m", "-y")


@pytest.mark.parametrize(("typed", "code"), [("m\n", 0), ("yes\n", 1), ("\n", 1)])
def test_on_a_terminal_its_name_is_asked_for(linked, file, monkeypatch, typed, code):
    file.write_text(yaml.safe_dump(PROMOTES))
    monkeypatch.setattr(consent, "_is_terminal", lambda: True)
    result = CliRunner().invoke(app, ["migration", "apply", str(file)], input=typed)
    assert result.exit_code == code, result.output
    assert "migration m promotes 2 topic(s) (clicks, orders)" in result.stderr
    assert set(linked.plane.store.migrations) == ({"m"} if code == 0 else set())
