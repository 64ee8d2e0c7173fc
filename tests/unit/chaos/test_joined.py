"""The plan of topologies, and the acts against fleets that answer late: each comes to its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos import conductor as conducting
from tests.chaos import joined
from tests.chaos.cast import SETS, groups_of
from tests.chaos.daily import with_daily
from tests.chaos.joined import JOINED, JOINED_FROM, NOT_PROMOTED_YET, PREFIX, JoinedConductor, with_joined
from tests.chaos.plan import Act, Plan, plan, source_kafka
from tests.unit.chaos.test_daily import Client, Fleet


def planned(seed: int) -> Plan:
    return with_daily(plan(seed, 300.0, 3, tuple(SETS), groups_of(source_kafka(seed))))


def test_seeds_before_have_the_plan_that_they_had() -> None:
    assert with_joined(planned(JOINED_FROM - 1)) == planned(JOINED_FROM - 1)


def test_each_topology_is_built_once_in_each_cycle_from_topics_of_its_own() -> None:
    before, after = planned(JOINED_FROM), with_joined(planned(JOINED_FROM))
    more = [act for act in after.acts if act.kind in JOINED]
    cycles = sum(act.kind == "fail_over" for act in before.acts)
    assert len(more) == cycles * len(JOINED)
    assert len({act.what for act in more}) == len(more)
    assert [act for act in after.acts if act.kind not in JOINED] == list(before.acts)
    assert after == with_joined(planned(JOINED_FROM))


class Gateways(Fleet):
    """A `Fleet` that makes links, names mirrors as its links do, and promotes the end of a chain last."""

    def __init__(self, before: Gateways | None = None) -> None:
        super().__init__()
        self.links: dict[str, str] = {}
        self.refused: list[str] = []
        self._before = before

    def _shown(self, path: str) -> tuple[int, Any]:
        if path.count("/") == 3:
            return (200, {}) if path.rpartition("/")[2] in self.links else (404, {})
        return super()._shown(path)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        if path.endswith("mirrors:promote") and self._before is not None:
            (topic,) = body["mirror_topic_names"]
            if topic.startswith("chained") and not body.get("force") and self._before.mirrors[topic] != "STOPPED":
                self.refused.append(topic)
                return 409, {"message": NOT_PROMOTED_YET}
        return super().ask(method, path, body)

    def _do(self, method: str, path: str, body: Any) -> int:
        if path == "/v3/links":
            self.links[body["link_name"]] = next((e["value"] for e in body["configs"] if "prefix" in e["name"]), "")
            return 201
        if path.endswith("/mirrors"):
            link = path.split("/")[3]
            self.mirrors[self.links.get(link, "") + body["source_topic_name"]] = "ACTIVE"
            return 201
        return super()._do(method, path, body)


class Writer(Client):
    acknowledged = 0

    def __init__(self, *_: object) -> None:
        pass

    def start(self, bootstrap: str, side: str) -> None:
        type(self).acknowledged += 1000

    def ask_to_stop(self) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "here", "there", "ways"),
    [
        ("aggregate", {"t": "STOPPED", f"{PREFIX}t": "STOPPED"}, {}, 2),
        ("chain", {"chained-0": "STOPPED"}, {"chained-0": "STOPPED"}, 1),
        ("fan_out", {"t": "STOPPED"}, {"t": "ACTIVE"}, 2),
        ("both_ways", {}, {"t": "STOPPED"}, 1),
    ],
)
def test_each_is_built_and_promoted(
    monkeypatch: pytest.MonkeyPatch, kind: str, here: dict[str, str], there: dict[str, str], ways: int
) -> None:
    monkeypatch.setattr(conducting, "_ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(conducting, "_LOOK_S", 0.0)
    monkeypatch.setattr(joined, "LibrdkafkaProducer", Writer)
    monkeypatch.setattr(joined, "create_topic", lambda *_, **__: None)
    monkeypatch.setattr(joined, "_AT_LEAST", 0)
    main = Gateways()
    far = Gateways(main)
    cluster = SimpleNamespace(bootstrap="there", create_topic=lambda *_: None)
    lab: Any = SimpleNamespace(
        source=cluster,
        target=cluster,
        third=cluster,
        operator=main,
        far_operator=far,
        far=SimpleNamespace(bootstrap="far"),
        gateway_bootstrap="gateways",
    )
    no_plan: Any = SimpleNamespace(acts=())
    nobody: Any = SimpleNamespace(recorder=None)
    conductor = JoinedConductor(no_plan, lab, nobody, nobody)
    topic = "chained-0" if kind == "chain" else "t"
    getattr(conductor, f"_{kind}")(Act(kind, topic, 0.0))
    assert (main.mirrors, far.mirrors) == (here, there)
    assert len(conductor.ways) == ways
    assert bool(far.refused) == (kind == "chain")
