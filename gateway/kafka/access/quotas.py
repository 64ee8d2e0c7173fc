"""Client quotas of a cluster: described and set (KIP-546).

Changes are sent in requests of a bounded size, each once (`controller.py`). A request names entity and key, so quotas
that it does not name stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.kafka.admin import AdminError
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError
from gateway.kafka.controller import on_controller
from gateway.kafka.rules.quota import QuotaEntityPart, QuotaKey, entity_of
from protocol.errors import error_name
from protocol.messages import AlterClientQuotasRequest, DescribeClientQuotasRequest

IN_A_REQUEST: Final = 100
"""Quotas that one request sets."""


async def describe_quotas(cluster: Cluster, *, timeout_s: float | None = None) -> Mapping[QuotaKey, float]:
    """Every quota of the cluster. Entities of kinds that this version does not know are left out.

    Raises:
        AdminError: CLUSTER_AUTHORIZATION_FAILED (31): this principal may not DESCRIBE_CONFIGS of the cluster.
        UnsupportedVersion: the cluster is older than Kafka 2.6.
        ClusterUnavailable: no answer within the deadline.
    """
    request = DescribeClientQuotasRequest(components=[], strict=False)
    response = await on_controller(cluster, lambda _: request, lambda answer: [answer], timeout_s)
    if response.error_code:
        why = response.error_message or error_name(response.error_code)
        raise AdminError(response.error_code, f"describe client quotas: {why}")
    found: dict[QuotaKey, float] = {}
    for entry in response.entries or ():
        entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
        if entity is not None:
            found.update((QuotaKey(entity, value.key), float(value.value)) for value in entry.values)
    return found


async def set_quotas(
    cluster: Cluster, wanted: Mapping[QuotaKey, float], *, timeout_s: float | None = None
) -> Mapping[QuotaKey, BrokerError]:
    """Set at most `IN_A_REQUEST` quotas, and no others.

    Returns:
        Those that were refused, each with its error; the others were set.

    Raises:
        ClusterUnavailable: no answer within the deadline; they may have been set, or may be yet.
    """
    if len(wanted) > IN_A_REQUEST:
        raise ValueError(f"{len(wanted)} quotas in one request")
    by_entity: dict[tuple[QuotaEntityPart, ...], list[QuotaKey]] = {}
    for key in wanted:
        by_entity.setdefault(key.entity, []).append(key)
    kind = AlterClientQuotasRequest.EntryData
    entries = [
        kind(
            entity=[kind.EntityData(entity_type=part.kind.value, entity_name=part.name) for part in entity],
            ops=[kind.OpData(key=key.key, value=wanted[key], remove=False) for key in keys],
        )
        for entity, keys in by_entity.items()
    ]
    response = await on_controller(
        cluster,
        lambda _: AlterClientQuotasRequest(entries=entries, validate_only=False),
        lambda answer: answer.entries,
        timeout_s,
    )
    refused: dict[QuotaKey, BrokerError] = {}
    for entry in response.entries:
        entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
        if entry.error_code and entity in by_entity:
            why = entry.error_message or error_name(entry.error_code)
            refused.update((key, AdminError(entry.error_code, f"{key.words}: {why}")) for key in by_entity[entity])
    return refused
