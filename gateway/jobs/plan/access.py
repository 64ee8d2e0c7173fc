"""ACLs and transactional ids of a cluster, as lines for people."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.kafka.access.acls import every_acl
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, UnsupportedVersion
from protocol.errors import ErrorCode, error_name
from protocol.messages import ListTransactionsRequest

_RESOURCES: Final = {2: "topic", 3: "group", 4: "cluster", 5: "transactional id", 6: "delegation token", 7: "user"}
_PATTERNS: Final = {3: "", 4: "prefixed "}
_OPERATIONS: Final = (
    "unknown",
    "any",
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "create-tokens",
    "describe-tokens",
    "two-phase-commit",
)
_PERMISSIONS: Final = {2: "deny", 3: "allow"}


async def acl_lines(cluster: Cluster) -> tuple[str, ...]:
    """Every ACL, one line each; none on a cluster without an authorizer.

    Raises:
        BrokerError: it is not allowed to ask.
        ClusterUnavailable: no answer.
    """
    try:
        resources = await every_acl(cluster)
    except BrokerError as exc:
        if exc.code == ErrorCode.SECURITY_DISABLED:
            return ()
        raise
    lines: list[str] = []
    for resource in resources:
        kind = _RESOURCES.get(resource.resource_type, str(resource.resource_type))
        what = f"{_PATTERNS.get(resource.pattern_type, '')}{kind} {resource.resource_name}"
        lines.extend(
            f"{_PERMISSIONS.get(acl.permission_type, '?')} {acl.principal} from {acl.host}: "
            f"{_operation(acl.operation)} on {what}"
            for acl in resource.acls
        )
    return tuple(sorted(lines))


async def transactional_ids(cluster: Cluster) -> tuple[str, ...]:
    """Transactional ids that the cluster's coordinators know; none from brokers too old to tell (before 3.0).

    Raises:
        BrokerError: it is not allowed to ask.
        ClusterUnavailable: a broker does not answer.
    """
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    try:
        answers = await asyncio.gather(
            *(cluster.request(request, node_id=node) for node in tuple(cluster.view.brokers))
        )
    except UnsupportedVersion:
        return ()
    found: set[str] = set()
    for answer in answers:
        if answer.error_code:
            raise BrokerError(answer.error_code, f"ListTransactions: {error_name(answer.error_code)}")
        found.update(state.transactional_id for state in answer.transaction_states)
    return tuple(sorted(found))


def _operation(code: int) -> str:
    return _OPERATIONS[code] if 0 <= code < len(_OPERATIONS) else str(code)
