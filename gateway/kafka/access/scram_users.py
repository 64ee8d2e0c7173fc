"""Users with SCRAM credentials on a cluster: who there is, and new ones (KIP-554).

Changes are sent in requests of a bounded size, each once (`controller.py`), and only ones that add: an existing
credential is never asked about again here, as it cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.kafka.admin import AdminError
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError
from gateway.kafka.controller import on_controller
from gateway.kafka.rules.scram import MECHANISM_BY_CODE, MECHANISM_CODES, ScramCredential, ScramKey
from protocol.errors import error_name
from protocol.messages import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest

IN_A_REQUEST: Final = 100
"""Credentials that one request makes; a user may stand in it once."""


async def describe_scram_users(cluster: Cluster, *, timeout_s: float | None = None) -> Mapping[ScramKey, int]:
    """Every credential of the cluster, with its iterations. Mechanisms that this version does not know are left out.

    Raises:
        AdminError: CLUSTER_AUTHORIZATION_FAILED (31): this principal may not DESCRIBE the cluster.
        UnsupportedVersion: the cluster is older than Kafka 2.7.
        ClusterUnavailable: no answer within the deadline.
    """
    request = DescribeUserScramCredentialsRequest(users=None)
    response = await on_controller(cluster, lambda _: request, lambda answer: [answer], timeout_s)
    if response.error_code:
        why = response.error_message or error_name(response.error_code)
        raise AdminError(response.error_code, f"describe SCRAM users: {why}")
    found: dict[ScramKey, int] = {}
    for result in response.results:
        for info in () if result.error_code else result.credential_infos:
            mechanism = MECHANISM_BY_CODE.get(info.mechanism)
            if mechanism is not None:
                found[ScramKey(result.user, mechanism)] = info.iterations
    return found


async def create_scram_users(
    cluster: Cluster, wanted: Sequence[ScramCredential], *, timeout_s: float | None = None
) -> Mapping[ScramKey, BrokerError]:
    """Store at most `IN_A_REQUEST` credentials of as many users.

    Returns:
        Those that were refused, each with its error; the others were made.

    Raises:
        ClusterUnavailable: no answer within the deadline; they may have been made, or may be yet.
    """
    users = {one.key.user: one.key for one in wanted}
    if len(wanted) > IN_A_REQUEST or len(users) < len(wanted):
        raise ValueError(f"{len(wanted)} credentials of {len(users)} users in one request")
    upsertions = [
        AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name=one.key.user,
            mechanism=MECHANISM_CODES[one.key.mechanism],
            iterations=one.iterations,
            salt=one.salt,
            salted_password=one.salted_password,
        )
        for one in wanted
    ]
    response = await on_controller(
        cluster,
        lambda _: AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions),
        lambda answer: answer.results,
        timeout_s,
    )
    refused: dict[ScramKey, BrokerError] = {}
    for result in response.results:
        if result.error_code and result.user in users:
            why = result.error_message or error_name(result.error_code)
            key = users[result.user]
            refused[key] = AdminError(result.error_code, f"SCRAM user {key.user}, {key.mechanism}: {why}")
    return refused
