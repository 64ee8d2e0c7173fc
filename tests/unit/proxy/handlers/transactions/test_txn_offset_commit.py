"""Offsets of a transaction go where their group is at the moment when they are sent, or nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.groups.gate.rules.gates import RecordedGate
from gateway.proxy.rules.transactional_ids import OWN
from gateway.proxy.transactions.coordinators import SeenTransaction
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import TxnOffsetCommitRequest
from tests.support.control.gates import commits_under_way, gate
from tests.unit.proxy.handlers.transactions.test_transaction_lease import Talk
from tests.unit.proxy.transactions.test_transactions import CLIENT

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

_KIND = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
COMMITS: Any = TxnOffsetCommitRequest(
    transactional_id="tx",
    producer_id=CLIENT.producer_id,
    producer_epoch=CLIENT.epoch,
    group_id="g",
    generation_id=-1,
    member_id="",  # the old API: sendOffsetsToTransaction(offsets, groupId)
    group_instance_id=None,
    topics=[
        _KIND(
            name="a",
            partitions=[
                _KIND.TxnOffsetCommitRequestPartition(
                    partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata=""
                )
            ],
        )
    ],
)


@pytest.fixture
async def talk_(talk: Conversation) -> Talk:
    """A transaction on the target that took group g in while it was promoted."""
    found = Talk(talk)
    found.lease.over = False
    talk.gates.enabled = True
    gate(talk.gates, "g", is_open=True)
    found.lab.coordinators.seen[OWN] = SeenTransaction(
        CLIENT, "Ongoing", 60_000, frozenset({"a", "__consumer_offsets"})
    )
    return found


def code(found: Talk) -> int:
    (topic,) = found.answered(COMMITS).topics
    return int(topic.partitions[0].error_code)


async def test_of_a_group_that_is_there(talk_: Talk) -> None:
    assert await talk_.asks(COMMITS) == [ApiKey.TXN_OFFSET_COMMIT]
    assert commits_under_way(talk_.talk.gates, "g")  # a demote waits for its answer


async def test_of_one_that_was_sent_back_since_the_transaction_took_it_in(talk_: Talk) -> None:
    gate(talk_.talk.gates, "g", is_open=False)
    assert await talk_.asks(COMMITS) == []
    assert code(talk_) == ErrorCode.UNKNOWN_MEMBER_ID
    assert not commits_under_way(talk_.talk.gates, "g")


async def test_of_one_that_is_being_sent_back(talk_: Talk) -> None:
    """Its gate is held shut while the target's offsets are read: clients ask again."""
    talk_.talk.gates.hold("g")
    assert await talk_.asks(COMMITS) == []
    assert code(talk_) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_of_one_that_is_being_promoted(talk_: Talk) -> None:
    talk_.talk.gates.recorded({"g": RecordedGate(False, 1, "west", promoting=True)}, grown_at=0)
    assert await talk_.asks(COMMITS) == []
    assert code(talk_) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_connection_that_closes_ends_what_was_under_way(talk_: Talk) -> None:
    await talk_.asks(COMMITS)
    talk_.talk.session.close("gone")
    assert not commits_under_way(talk_.talk.gates, "g")
