"""What is a refusal, and what is only asked again."""

from __future__ import annotations

import pytest

from gateway.errors import Conflict, ControlError, SourceUnreachable, TargetUnreachable
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, NetError, PartitionErrors
from gateway.operations.cluster_errors import knows_no_topic, source_errors, target_errors
from protocol.errors import ErrorCode

MOVED = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def partitions(*codes: int) -> PartitionErrors:
    return PartitionErrors("ListOffsets", {("orders", n): code for n, code in enumerate(codes)}, {})


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ClusterUnavailable("no answer"), True),
        (BrokerError(ErrorCode.NOT_CONTROLLER, "create"), True),
        (partitions(MOVED, MOVED), True),
        (partitions(MOVED, UNKNOWN), False),
        (BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "create"), False),
        (NetError("of another kind"), False),
    ],
)
def test_only_what_may_change_is_asked_again(error: NetError, again: bool) -> None:
    for errors, unreachable in ((source_errors("west"), SourceUnreachable), (target_errors(), TargetUnreachable)):
        with pytest.raises(ControlError) as told, errors:
            raise error
        assert type(told.value) is (unreachable if again else Conflict)


@pytest.mark.parametrize(
    ("error", "is_unknown"),
    [
        (partitions(UNKNOWN, UNKNOWN), True),
        (BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "delete"), True),
        (partitions(UNKNOWN, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)), False),
        (NetError("of another kind"), False),
    ],
)
def test_a_topic_that_nobody_knows(error: NetError, is_unknown: bool) -> None:
    with pytest.raises(Conflict) as told, source_errors("west"):
        raise error
    assert knows_no_topic(told.value) is is_unknown
    assert not knows_no_topic(Conflict("of ours"))
