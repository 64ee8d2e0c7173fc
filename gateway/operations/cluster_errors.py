"""What a cluster answers, or does not, as the errors that an operator sees.

What the door for acts refused (`kafka/acts.py`) was not sent, and is decided again: it counts as a cluster that could
not be asked now.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.errors import Conflict, SourceUnreachable, TargetUnreachable
from gateway.kafka.acts import ActRefused
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, NetError, PartitionErrors
from protocol.errors import ErrorCode, is_retriable

_UNKNOWN_TOPIC = frozenset({int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), int(ErrorCode.UNKNOWN_TOPIC_ID)})


@contextmanager
def source_errors(link: str) -> Iterator[None]:
    """Turn errors of the Kafka client into SourceUnreachable, or Conflict when the source refuses for good."""
    try:
        yield
    except ActRefused as exc:
        raise SourceUnreachable(str(exc)) from exc
    except (ClusterUnavailable, TimeoutError, OSError) as exc:
        raise SourceUnreachable(f"the source of link '{link}': {str(exc) or 'no answer in time'}") from exc
    except NetError as exc:
        if _may_change(exc):
            raise SourceUnreachable(f"the source of link '{link}': {exc}") from exc
        raise Conflict(f"the source of link '{link}' refuses: {exc}") from exc


@contextmanager
def target_errors() -> Iterator[None]:
    """Turn errors of the Kafka client into TargetUnreachable, or Conflict when the target refuses for good."""
    try:
        yield
    except ActRefused as exc:
        raise TargetUnreachable(str(exc)) from exc
    except (ClusterUnavailable, TimeoutError, OSError) as exc:
        raise TargetUnreachable(f"the target cluster: {str(exc) or 'no answer in time'}") from exc
    except NetError as exc:
        if _may_change(exc):
            raise TargetUnreachable(f"the target cluster: {exc}") from exc
        raise Conflict(f"the target cluster refuses: {exc}") from exc


def knows_no_topic(exc: Conflict) -> bool:
    """The answer behind a refusal was that there is no such topic.

    Brokers learn of a topic's creation and deletion one after the other, and one that is cut off from the controller
    much later: so this may be said of a topic whose name another one has just told, or the other way round.
    """
    codes = _codes(exc.__cause__)
    return bool(codes) and codes <= _UNKNOWN_TOPIC


def _may_change(exc: NetError) -> bool:
    """Only errors that any client answers by asking again: the time was up before the cluster was at rest.

    Not that there is no such topic, which is what a client asks again for a while, too: see `knows_no_topic`.
    """
    codes = _codes(exc)
    return bool(codes) and not codes & _UNKNOWN_TOPIC and all(map(is_retriable, codes))


def _codes(exc: BaseException | None) -> frozenset[int]:
    match exc:
        case PartitionErrors():
            return frozenset(exc.errors.values())
        case BrokerError():
            return frozenset({exc.code})
        case _:
            return frozenset()
