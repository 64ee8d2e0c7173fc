"""What can go wrong between us and a Kafka cluster. Few classes, split by what the caller can do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.kafka.topic_partition import TopicPartition


class NetError(Exception):
    """Base of everything this package raises on purpose."""


class ClusterUnavailable(NetError):
    """The cluster, or the broker that was needed, could not be used before the deadline; the message says why."""


class ConnectionClosed(ClusterUnavailable):
    """The connection is gone. When a request raises this, whether the broker acted on it is unknown."""


class RequestTimedOut(ClusterUnavailable):
    """No response within the request's time. Whether the broker acted on it is unknown."""


class AuthenticationFailed(ClusterUnavailable):
    """The broker refused the credentials or the SASL mechanism. Trying again does not help."""


class UnsupportedVersion(NetError):
    """The broker and this client have no version of an API in common."""


class BrokerError(NetError):
    """A broker answered a whole request with an error code of the Kafka protocol.

    Attributes:
        code: the error code (`protocol.errors.ErrorCode` value).
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class LogTruncated(NetError):
    """The log has another history than what was read from it (KIP-595): it was cut, and perhaps written anew since.
    Trying again does not help.

    Attributes:
        end: what was read below this offset is still there; 0 when that is not known.
    """

    def __init__(self, message: str, end: int = 0) -> None:
        super().__init__(message)
        self.end = end


class ReadTooLate(NetError):
    """A compacted log was not read for so long that the cleaner may have removed what deleted a key, unread
    (`delete.retention.ms`). Trying again does not help; reading all of it anew does."""


class PartitionErrors(NetError):
    """Some partitions of a request failed.

    Attributes:
        errors: (topic, partition) -> error code.
        partial: the results of the partitions that did not fail, as the call would have returned them.
    """

    def __init__(self, what: str, errors: Mapping[TopicPartition, int], partial: Mapping[TopicPartition, Any]) -> None:
        worst = ", ".join(
            f"{topic}-{partition}: error {code}" for (topic, partition), code in sorted(errors.items())[:5]
        )
        more = f" and {len(errors) - 5} more" if len(errors) > 5 else ""
        super().__init__(f"{what} failed for {worst}{more}")
        self.errors = dict(errors)
        self.partial = dict(partial)


class LeadersUnreachable(PartitionErrors, ClusterUnavailable):
    """The leaders of some partitions did not answer before the deadline; those of others did, see `partial`.

    To who needs all of them the cluster is unavailable; who can do with some takes it as PartitionErrors.
    """

    def __init__(
        self, message: str, errors: Mapping[TopicPartition, int], partial: Mapping[TopicPartition, Any]
    ) -> None:
        super().__init__(message, errors, partial)
        self.args = (message,)
