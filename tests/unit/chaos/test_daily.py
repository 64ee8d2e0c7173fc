"""The daily acts against a fleet that answers late, or not at all: each comes to its end, asking for what there is."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.api.app import create_app
from tests.chaos import conductor as conducting
from tests.chaos import daily
from tests.chaos.conductor import LINK, SOURCE, TARGET
from tests.chaos.daily import DAILY, DailyConductor
from tests.chaos.plan import Act


class Fleet:
    """Answers as an `Operator` does. The first question of each change is done, and its answer is lost."""

    def __init__(self) -> None:
        self.mirrors: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.configs: dict[str, str] = {}
        self._lost: set[tuple[str, str]] = set()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        if method == "GET":
            return self._shown(path)
        self.asked.append((method, path))
        code = self._do(method, path, body or {})
        if (method, path) not in self._lost:
            self._lost.add((method, path))
            return 0, "nobody has answered"
        return code, {}

    def _shown(self, path: str) -> tuple[int, Any]:
        data = [
            {
                "mirror_topic_name": name,
                "mirror_status": status,
                "mirror_direction": "FORWARD",
                "mirror_lags": [{"phase": "copying", "source_end": 99}],
            }
            for name, status in self.mirrors.items()
        ]
        if path.endswith("/mirrors"):
            return 200, {"data": data}
        found = [one for one in data if path.endswith(f"/{one['mirror_topic_name']}")]
        return (200, found[0]) if found else (404, {})

    def _do(self, method: str, path: str, body: Any) -> int:
        topic = path.partition("?")[0].rpartition("/")[2].partition(":")[0]
        if method == "DELETE":
            return 204 if self.mirrors.pop(topic, None) else 404
        if path.endswith("/mirrors"):
            self.mirrors[body["source_topic_name"]] = "ACTIVE"
        elif path.endswith(":recreate"):
            self.mirrors[topic] = "ACTIVE"
        elif path.endswith("mirrors:promote"):
            self.mirrors |= dict.fromkeys(body["mirror_topic_names"], "STOPPED")
        elif path.endswith("configs:alter"):
            for one in body["data"]:
                self.configs[one["name"]] = one.get("value", one.get("operation"))
        return 200


class Client:
    """A producer."""

    side = ""

    def start(self, _bootstrap: str, side: str) -> None:
        self.side = side

    def stop(self) -> None:
        pass


class Cluster:
    """Topics are made, and the link creates the mirror of those that it is to."""

    bootstrap = "there"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.done: list[str] = []

    def create_topic(self, topic: str, _partitions: int) -> None:
        if self._fleet.configs.get("auto.create.mirror.topics.enable") == "true":
            self._fleet.mirrors[topic] = "ACTIVE"

    def delete_topic(self, topic: str) -> None:
        self.done.append("deleted")
        self._fleet.mirrors[topic] = "FAILED"

    def write_by_hand(self, topic: str) -> None:
        self.done.append("written")
        self._fleet.mirrors[topic] = "FAILED"


def done(monkeypatch: pytest.MonkeyPatch, kind: str, what: str) -> tuple[Fleet, DailyConductor, list[Any]]:
    """The act is carried out."""
    monkeypatch.setattr(conducting, "_ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(conducting, "_LOOK_S", 0.0)
    monkeypatch.setattr(daily, "_PAUSED_S", 0.0)
    fleet, history, producer = Fleet(), list[Any](), Client()
    cluster = Cluster(fleet)
    lab: Any = SimpleNamespace(source=cluster, target=cluster, operator=fleet, gateway_bootstrap="gateways")
    recorder = SimpleNamespace(write=lambda *said: history.append(said))
    cast: Any = SimpleNamespace(recorder=recorder, extra=lambda _topic: producer)
    conductor = DailyConductor(SimpleNamespace(acts=()), lab, cast)
    carry_out: Callable[[Act], None] = getattr(conductor, f"_{kind}")
    carry_out(Act(kind, what, 0.0))
    if what in conductor.topics:
        assert producer.side == TARGET != SOURCE
    return fleet, conductor, history


@pytest.mark.parametrize("kind", [kind for kind in DAILY if kind not in ("alter_link", "pause_link")])
def test_a_topic_of_its_own_is_promoted_in_the_end(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    fleet, conductor, history = done(monkeypatch, kind, "own-0")
    assert fleet.mirrors == {"own-0": "STOPPED"}
    assert conductor.topics["own-0"] == 1
    cutovers = [(said[0], said[3]["to"]) for said in history if said[2] == "cutover"]
    assert cutovers == [("invoke", TARGET), ("ok", TARGET)]
    verbs = {path.rpartition(":")[2] for _, path in fleet.asked}
    assert ("recreate" in verbs) == kind.startswith("mend")
    assert any(method == "DELETE" for method, _ in fleet.asked) == (kind == "unmirror")
    assert ("POST", f"/v3/links/{LINK}/mirrors") in fleet.asked or kind == "auto_create"


@pytest.mark.parametrize("what", list(daily._CONFIGS))
def test_configs_are_set_and_set_back(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    fleet, _, _ = done(monkeypatch, "alter_link", what)
    assert fleet.configs == dict.fromkeys(daily._CONFIGS[what], "DELETE")


def test_a_link_is_resumed_and_the_pause_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, conductor, _ = done(monkeypatch, "pause_link", LINK)
    assert fleet.asked[-1] == ("POST", f"/v3/links/{LINK}:resume")
    (pause,) = conductor.paused
    assert 0 <= pause["began_s"] <= pause["ended_s"]


def test_the_gateways_have_all_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Any = None
    paths: dict[str, dict[str, Any]] = create_app(nothing, nothing, nothing, nothing).openapi()["paths"]
    patterns = [(re.compile(re.sub(r"\{[^}]+\}", "[^/:]+", path)), methods) for path, methods in paths.items()]
    for kind, what in DAILY.items():
        for method, asked in done(monkeypatch, kind, what)[0].asked:
            path = asked.partition("?")[0]
            assert any(p.fullmatch(path) and method.lower() in methods for p, methods in patterns), (method, path)
