from dataclasses import replace

import pytest

from gateway.doctor.rules.facts import AddressFacts, BrokerFacts, GatewayFacts, Inquiry, PlaceFacts, SeenCluster, Side
from gateway.doctor.rules.finding import DoctorFinding, Level
from gateway.doctor.rules.gateway import check_gateway, check_through

GATEWAY = GatewayFacts(
    url="http://127.0.0.1:8642",
    version="1",
    leader="g1",
    gateways={"g1": "up", "g2": "up"},
    links={"west": ("ACTIVE", "")},
    files=(100, 1000),
    ahead_s=0.0,
    target_cluster_id="c",
)
PLACE = PlaceFacts(host="gateway", port=9292, addresses=(AddressFacts(address="10.0.0.1"),))
BROKER = BrokerFacts(node_id=1, place=PLACE)
THROUGH = SeenCluster(
    name="through gateway:9292", asked=Inquiry(side=Side.TARGET), bootstrap=(PLACE,), cluster_id="c", brokers=(BROKER,)
)


def of(facts: GatewayFacts, *, expected: bool = True) -> list[DoctorFinding]:
    return list(check_gateway(facts, "1", expected=expected))


def test_all_is_well() -> None:
    assert {one.level for one in of(GATEWAY)} == {Level.OK}
    assert [one.check for one in of(GATEWAY)] == ["ready", "clock", "files", "fleet", "link"]


def test_one_that_does_not_answer_fails_only_who_has_asked_for_it() -> None:
    silent = GatewayFacts(url="u", error="connection refused")
    assert [one.level for one in of(silent)] == [Level.FAIL]
    assert [one.level for one in of(silent, expected=False)] == [Level.WARN]


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (replace(GATEWAY, failing={"target": "no answer"}), Level.FAIL, "target: no answer"),
        (replace(GATEWAY, version="2"), Level.WARN, "it is 2, this command 1"),
        (replace(GATEWAY, files=(800, 1000)), Level.FAIL, "800 of 1000 files are open"),
        (replace(GATEWAY, gateways={"g1": "up", "g2": "lost"}), Level.WARN, "not heard: g2"),
        (replace(GATEWAY, leader=""), Level.FAIL, "nobody leads"),
        (replace(GATEWAY, trouble="the coordinator has forgotten it"), Level.FAIL, "the coordinator has forgotten it"),
        (replace(GATEWAY, links={"west": ("FAILED", "no login")}), Level.FAIL, "the gateway says: FAILED: no login"),
        (replace(GATEWAY, untold={"its status": "no token"}), Level.WARN, "its status not told (no token)"),
    ],
)
def test_what_is_wrong_with_it(facts: GatewayFacts, level: Level, words: str) -> None:
    found = [one for one in of(facts) if one.level is not Level.OK]
    assert [(one.level, one.value) for one in found] == [(level, words)]


def through(facts: SeenCluster, target: SeenCluster | None = None, target_id: str = "c") -> list[DoctorFinding]:
    return list(check_through(facts, target, target_id, 0.0))


def test_the_target_through_the_gateway() -> None:
    assert [one.level for one in through(THROUGH)] == [Level.OK, Level.OK]
    assert [one.level for one in through(THROUGH, replace(THROUGH, name="target"))] == [Level.OK, Level.OK]


def test_a_listener_of_another_cluster() -> None:
    found = through(THROUGH, target_id="other")[-1]
    assert (found.level, "leads to cluster c, and the target is other" in found.value) == (Level.FAIL, True)
    assert through(THROUGH, replace(THROUGH, cluster_id="d"))[-1].level is Level.FAIL


def test_a_broker_that_is_seen_on_one_side_alone() -> None:
    more = replace(THROUGH, brokers=(BROKER, replace(BROKER, node_id=2)))
    assert through(THROUGH, more)[-1].value == "it tells of broker 1, the target of 1, 2"


def test_a_target_that_nobody_saw_is_not_compared() -> None:
    assert through(THROUGH, replace(THROUGH, error="no answer", cluster_id="", brokers=()))[-1].level is Level.OK


def test_a_listener_that_does_not_serve() -> None:
    found = through(replace(THROUGH, error="closed"))[-1]
    assert (found.check, found.level) == ("listener", Level.FAIL)
    found = through(replace(THROUGH, unasked="a CA of their own"))[-1]
    assert (found.level, "--through FILE" in found.remedy) == (Level.WARN, True)


def test_ports_that_are_told_and_closed() -> None:
    closed = replace(PLACE, port=9293, addresses=(AddressFacts(address="10.0.0.1", error="connection refused"),))
    found = through(replace(THROUGH, brokers=(replace(BROKER, place=closed, error="refused"),)))
    assert [one.value for one in found if one.level is Level.FAIL] == [
        "gateway:9293 takes no connection (10.0.0.1: connection refused)"
    ]
