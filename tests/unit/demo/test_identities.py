"""Who was seen where: each way in which an identity is not kept, or a right is gained, is found."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from demo.checker import Window
from demo.secure.authorizer_log import Decision
from demo.secure.identities import Identities, judge_identities, look_at_source, look_at_target

TOPIC, PROMOTE, FORWARDING = "orders", Window(100, 110), Window(50, 100)
TOLD = {"write": "TOPIC_AUTHORIZATION_FAILED", "join": "GROUP_AUTHORIZATION_FAILED"}


def wrote(who: str, at_ms: int, topic: str = TOPIC) -> Decision:
    return Decision(at_ms, who, True, "WRITE", f"Topic {topic}", "Produce")


def read(who: str, at_ms: int) -> Decision:
    return Decision(at_ms, who, True, "READ", "Group audit", "OffsetCommit")


SOURCE = [wrote("shop", 10), wrote("shop", 60), read("member", 20)]
TARGET = [wrote("lockgate", 70), wrote("lockgate", 105), wrote("shop", 120), read("member", 80)]


def judge(
    source: Iterable[Decision] = SOURCE, target: Iterable[Decision] = TARGET, **told: dict[str, str]
) -> Identities:
    return judge_identities(
        look_at_source(source, TOPIC, FORWARDING),
        look_at_target(target, TOPIC, FORWARDING, PROMOTE),
        {"broker": TOLD, **told},
        "broker",
        producers=["shop"],
        members=["member"],
    )


def test_everybody_was_themselves() -> None:
    found = judge(gateway=TOLD)
    assert found.kept
    assert not found.faults()
    assert found.gateway["target"] == {"WRITE Topic orders": 2}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ([*SOURCE, wrote("lockgate", 60)], TARGET),
        ([*SOURCE, wrote("admin", 60)], TARGET),
        (SOURCE, [*TARGET, wrote("lockgate", 111)]),
        (SOURCE, [*TARGET, wrote("shop", 99)]),
    ],
    ids=["the link writes", "a super user writes", "the gateway writes after the promote", "a client before it"],
)
def test_a_write_by_the_wrong_principal(source: list[Decision], target: list[Decision]) -> None:
    found = judge(source, target)
    assert not found.kept
    assert len(found.wrong) == 1


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_client_that_was_not_seen_on_the_source(missing: int) -> None:
    found = judge(SOURCE[:missing] + SOURCE[missing + 1 :])
    assert found.kept is (missing == 0), "its first write was before it was moved"
    assert len(found.missing) == (0 if missing == 0 else 1)


@pytest.mark.parametrize("missing", [2, 3])
def test_a_client_that_was_not_seen_on_the_target(missing: int) -> None:
    assert not judge(target=TARGET[:missing] + TARGET[missing + 1 :]).kept


def test_what_was_denied_is_nothing() -> None:
    denied = wrote("lockgate", 60)._replace(allowed=False)
    assert judge([*SOURCE, denied, denied._replace(who="mallory")]).kept


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ([*TARGET, Decision(1, "mallory", True, "DESCRIBE", "Topic orders", "Metadata")], TOLD),
        (TARGET, {**TOLD, "write": "done"}),
        (TARGET, {**TOLD, "join": "COORDINATOR_NOT_AVAILABLE"}),
    ],
    ids=["allowed by a broker", "done", "told otherwise than by a broker"],
)
def test_a_gained_right(target: list[Decision], told: dict[str, str]) -> None:
    assert len(judge(target=target, gateway=told).gained) == 1


def test_what_a_broker_itself_lets_everybody_do_is_a_gained_right() -> None:
    """The intruder of this demo has no right at all."""
    assert judge_identities(
        look_at_source([], TOPIC, FORWARDING),
        look_at_target([], TOPIC, FORWARDING, PROMOTE),
        {"broker": {"write": "done"}},
        "broker",
        producers=[],
        members=[],
    ).gained
