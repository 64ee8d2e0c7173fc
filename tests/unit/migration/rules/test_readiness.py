"""Readiness: what costs how much, and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.migration.rules.readiness import (
    BLOCKED,
    Code,
    GroupReady,
    LostGateway,
    OpenTransaction,
    ReaderSeen,
    ReadinessScene,
    TopicReady,
    Weight,
    judge,
)
from gateway.state.records import GroupState, MirrorState

TOPIC = TopicReady(name="orders", state=MirrorState.ACTIVE)
GROUP = GroupReady(name="billing", state=GroupState.PROMOTED)
READY = ReadinessScene(application="a", link="l", topics=(TOPIC,), groups=(GROUP,))
READER = ReaderSeen(group="other", client_id="app-7", host="10.0.0.7")


def with_topic(**changes: object) -> ReadinessScene:
    return replace(READY, topics=(replace(TOPIC, **changes),))  # type: ignore[arg-type]


def with_group(**changes: object) -> ReadinessScene:
    return replace(READY, groups=(replace(GROUP, state=GroupState.ACTIVE, **changes),))  # type: ignore[arg-type]


def test_nothing_missing_is_100() -> None:
    assert (judge(READY).score, judge(READY).findings) == (100, ())


def test_what_is_promoted_already_costs_nothing() -> None:
    assert judge(with_topic(state=MirrorState.STOPPED, lag=None, readers=None)).score == 100


@pytest.mark.parametrize(
    ("scene", "code", "words"),
    [
        (replace(READY, source_trouble="gone"), Code.SOURCE_UNAVAILABLE, "gone"),
        (replace(READY, target_trouble="gone"), Code.TARGET_UNAVAILABLE, "gone"),
        (with_topic(state=None), Code.NOT_MIRRORED, "orders"),
        (with_topic(state=MirrorState.FAILED, remark="why"), Code.MIRROR_STATE, "FAILED, why"),
        (with_topic(bypassed_now=5), Code.BYPASSED_NOW, "5 records of the last minute"),
        (with_group(members=2), Code.GROUP_NOT_PROMOTED, "2 member(s) on the source"),
        (
            replace(
                READY,
                transactions=(OpenTransaction(transactional_id="t", topics=("orders",), open_s=90, timeout_s=600),),
            ),
            Code.TRANSACTION_OPEN,
            "'t' has orders open for 90 s",
        ),
        (
            replace(READY, gateways=(LostGateway(name="g2", state="lost", lease_left_s=30),)),
            Code.GATEWAY_LOST,
            "30 s yet",
        ),
        (with_topic(not_durable="1 of 3 replicas", warnings=("x",)), Code.COPY_NOT_DURABLE, "1 of 3 replicas"),
    ],
)
def test_what_blocks(scene: ReadinessScene, code: Code, words: str) -> None:
    judged = judge(scene)
    finding = next(one for one in judged.findings if one.code is code)
    assert (finding.weight, words in finding.reason) == (Weight.BLOCKS, True), finding
    assert judged.score <= BLOCKED
    assert finding.remedy


@pytest.mark.parametrize(
    ("scene", "code", "score"),
    [
        (with_topic(lag=None), Code.LAG, 90),
        (with_topic(lag=20_000), Code.LAG, 90),
        (with_topic(lag=5_000, lag_before=100), Code.LAG_GROWS, 85),
        (with_topic(bypassed_hour=3), Code.BYPASSED_LAST_HOUR, 85),
        (with_topic(readers=(READER,)), Code.CLIENTS_NOT_MIGRATED, 80),
        (with_topic(readers=None, unknown="x"), Code.CLIENTS_UNKNOWN, 95),
        (with_topic(after_cutover=1), Code.RECORDS_AFTER_CUTOVER, 85),
        (with_topic(after_cutover=None), Code.CLIENTS_UNKNOWN, 95),
        (with_topic(set_back=1), Code.CONFIGS_SET_BACK, 97),
        (with_topic(warnings=("min.insync.replicas is 1",)), Code.COPY_DIFFERS, 90),
        (with_topic(promote_error="why"), Code.PROMOTE_FAILED, 95),
        (replace(READY, transactions=None, transactions_unknown="x"), Code.TRANSACTIONS_UNKNOWN, 97),
        (replace(READY, acls_missing=4), Code.ACLS_DIFFER, 90),
        (replace(READY, acls_unknown="x"), Code.ACLS_UNKNOWN, 97),
        (replace(with_group(members=0, uncommitted=None, remark="x"), together=True), Code.OFFSETS_UNKNOWN, 95),
    ],
)
def test_what_costs(scene: ReadinessScene, code: Code, score: int) -> None:
    judged = judge(scene)
    assert ([one.code for one in judged.findings], judged.score) == ([code], score)


def test_a_client_is_named_with_its_address() -> None:
    (finding,) = judge(with_topic(readers=(READER,))).findings
    assert "app-7 of 'other' at 10.0.0.7" in finding.reason


def test_a_short_transaction_and_a_small_lag_are_daily_business() -> None:
    short = OpenTransaction(transactional_id="t", topics=("orders",), open_s=0.2, timeout_s=60)
    assert judge(replace(with_topic(lag=50, lag_before=10), transactions=(short,))).score == 100


def test_a_group_that_waits_at_its_gate_does_not_block_a_set_that_moves_together() -> None:
    waiting = with_group(members=0, remark="it waits for its topics")
    assert judge(waiting).score <= BLOCKED
    assert judge(replace(waiting, together=True)).score == 100
    own = replace(waiting, together=True, topics=(replace(TOPIC, readers=(replace(READER, group="billing"),)),))
    assert judge(own).score == 100  # its own members are told of as a group


def test_a_group_without_offsets_begins_anew() -> None:
    judged = judge(with_group(uncommitted=("orders",)))
    assert any(one.code is Code.GROUP_WITHOUT_COMMITS and "auto.offset.reset" in one.reason for one in judged.findings)


def test_many_of_a_kind_cost_more_but_not_without_end() -> None:
    many = tuple(replace(TOPIC, name=f"t{n}", set_back=1) for n in range(500))
    assert judge(replace(READY, topics=many)).score == 100 - 2 * 3


def test_the_worst_comes_first() -> None:
    judged = judge(replace(with_topic(set_back=1, bypassed_now=9), acls_missing=1))
    assert [one.code for one in judged.findings] == [Code.BYPASSED_NOW, Code.ACLS_DIFFER, Code.CONFIGS_SET_BACK]
