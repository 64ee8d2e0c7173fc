"""Each list at four widths and in a pipe, with a topic's longest name and a long error."""

from __future__ import annotations

import pytest

from gateway.kafka.groups import GroupView, MemberView
from gateway.state.records import MirrorState
from tests.hand.conftest import Pipe, Type, run
from tests.support.control.control_plane import SOURCE
from tests.support.control.control_server import ControlServer
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status

WIDTHS = (80, 100, 120, 200)
NAME = "payments." + "orders-" * 34 + "xx"
ERROR = "the copy ended at 4711 before its source, see the log of the gateway that leads; " * 4

LISTS = {
    ("link", "list"): ("west", "ACTIVE"),
    ("link", "configuration", "list", "west"): ("link.prefix",),
    ("link", "task", "list", "west"): ("ACTIVE",),
    ("link", "schemas", "list", "west"): ("no schemas",),
    ("mirror", "list"): (NAME, "FAILED", "orders", "ACTIVE", "41", ERROR.strip()),
    ("mirror", "candidates"): ("clicks", "AUTO_CREATE_OFF"),
    ("mirror", "state-transition-error", "list", "orders"): ("no transition errors",),
    ("mirror", "describe", NAME): (NAME, "FAILED"),
    ("group", "list"): ("billing", "ACTIVE"),
    ("group", "describe", "billing"): ("billing", "ACTIVE", "app-1"),
    ("migration", "list"): ("cluster", "DONE"),
    ("migration", "status", "cluster"): ("cluster", "DONE"),
}


@pytest.fixture(scope="module", autouse=True)
def scene(server: ControlServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A link with a mirror topic that goes well and one that has FAILED, a group, a migration."""
    plane = server.plane
    for topic in ("orders", "clicks", NAME):
        plane.source.add(topic, 2, 100)
    member = MemberView(member_id="m", client_id="app-1", host="/10.1.1.1", subscribed=frozenset({"orders"}))
    plane.source.groups["billing"] = GroupView(
        group="billing", state="Stable", type="classic", protocol_type="consumer", members=(member,)
    )
    file = tmp_path_factory.mktemp("hand") / "cluster.yaml"
    file.write_text("{migration: cluster, link: west, applications: [{name: a, topics: [orders], until: mirrored}]}")
    for words in (
        ("link", "create", "west", "--bootstrap", SOURCE),
        ("mirror", "create", "orders", NAME),
        ("group", "create", "billing"),
        ("migration", "apply", str(file)),
    ):
        run(*words)
    plane.engine.numbers["west", "orders"] = [status(0, lag=41), status(1, lag=0)]

    async def fail() -> None:
        record = plane.store.mirrors["west", NAME]
        await plane.by_hand(changed(record, state=MirrorState.FAILED, error_message=ERROR))

    server.do(fail)


@pytest.mark.parametrize("words", LISTS, ids=lambda words: " ".join(words)[:40])
def test_what_decides_is_in_sight(words: tuple[str, ...], type_it: Type, pipe: Pipe) -> None:
    begun = {columns: type_it(*words, columns=columns) for columns in WIDTHS}
    for columns, terminal in begun.items():
        ran = terminal.end()
        flat = " ".join(ran.shown.split())
        assert [part for part in LISTS[words] if part not in flat] == [], (columns, ran.shown)
        assert "…" not in ran.shown
        long = [line for line in ran.lines if len(line) > columns]
        assert [line for line in long if max(map(len, line.split())) <= columns // 2] == []
    piped = pipe(*words)
    assert [part for part in LISTS[words] if part not in piped.stdout] == []
    assert "\x1b" not in piped.stdout
    assert "left out" not in piped.stdout


def test_the_columns_of_a_narrow_terminal(type_it: Type) -> None:
    narrow = type_it("mirror", "list", columns=80).end()
    assert narrow.lines[0].split()[:4] == ["Mirror", "topic", "Status", "Lag"]
    assert any(line.startswith("columns left out: ") and line.endswith("-o wide") for line in narrow.lines)
    assert NAME in narrow.lines


@pytest.mark.parametrize("columns", WIDTHS)
def test_help(columns: int, type_it: Type) -> None:
    ran = type_it("mirror", "promote", "-h", columns=columns).end()
    assert ran.code == 0
    assert max(map(len, ran.lines)) <= columns
    assert "Usage: lockgate mirror promote" in ran.shown or "mirror promote" in ran.shown
