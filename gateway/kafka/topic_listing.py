"""All topics of a cluster that this client may see, and whether it may read them: one Metadata request.

The listing stays out of the cluster's view: nobody routes by it, and it is asked for every few minutes at the most.
"""

from __future__ import annotations

from typing import Final

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.kafka.rules.topic_ids import topic_id_text
from gateway.kafka.view import ListedTopic
from protocol.errors import ErrorCode
from protocol.messages import MetadataRequest

_READ: Final = 1 << 3
"""AclOperation.READ as a bit of Metadata's `topic_authorized_operations` (KIP-430)."""

_NOT_TOLD: Final = -(2**31)
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


async def list_topics(cluster: Cluster, *, timeout_s: float | None = None) -> list[ListedTopic]:
    """The topics that this client may describe, by name. One that no broker has finished to create may be missing.

    Raises:
        ClusterUnavailable: no answer within the deadline.
    """
    request = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
    )
    response = await cluster.request(request, timeout_s=timeout_s)
    if not response.brokers:
        raise ClusterUnavailable("Metadata without brokers")
    found = []
    for topic in response.topics:
        if not topic.name or topic.error_code in _GONE:
            continue
        topic_id = "" if topic.topic_id is None else topic_id_text(topic.topic_id.bytes)
        found.append(ListedTopic(topic.name, topic_id, bool(topic.is_internal), _readable(topic)))
    return sorted(found, key=lambda topic: topic.name)


def _readable(topic: object) -> bool | None:
    if getattr(topic, "error_code", 0) == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return False
    operations = getattr(topic, "topic_authorized_operations", _NOT_TOLD)
    return None if operations in (None, _NOT_TOLD) else bool(operations & _READ)
