"""Delegation tokens whose owner is somebody else (KIP-48, KIP-373): who has one logs in as its owner.

A cluster's administrator lets a principal make tokens for others name by name (`CreateTokens` on the resource
`User:NAME`). Whoever holds a token logs in with SASL/SCRAM and the extension `tokenauth=true`, and the broker takes the
connection for the owner's. Times of a token are the broker's clock; here they are made durations, so that clocks need
not agree.
"""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from gateway.kafka.cluster import CONTROL_LANE, Cluster
from gateway.kafka.connection.errors import AuthenticationFailed, ClusterUnavailable, NetError, UnsupportedVersion
from gateway.kafka.controller import on_controller
from gateway.transport.backoff import Backoff
from protocol.apis import ApiKey
from protocol.errors import ErrorCode, error_name
from protocol.messages import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
)

PRINCIPAL_TYPE: Final = "User"
MAX_NAME: Final = 1_024  # characters of a principal's name

_FOR_OTHERS = ApiKey.CREATE_DELEGATION_TOKEN, 3
_KNOWN_S = 5.0
_REASONS: Final = {
    int(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED): "its brokers have no delegation.token.secret.key",
    int(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED): (
        "it takes no token requests on this gateway's connections: the gateway has to log in itself (SASL)"
    ),
    int(ErrorCode.INVALID_PRINCIPAL_TYPE): "it does not know principals of the type User",
}
_TOO_OLD: Final = (
    "the cluster is too old to make delegation tokens for others (KIP-373): it takes Kafka 3.6 with KRaft, 3.3 with "
    "ZooKeeper"
)
_RETRIABLE: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE)


class TokenRefused(AuthenticationFailed):
    """The cluster makes no token for this principal until its administrator changes something, which the line names."""


class Token(NamedTuple):
    """A token. `lifetime_s`: seconds from when it was made."""

    token_id: str
    hmac: bytes
    lifetime_s: float

    @property
    def password(self) -> str:
        """What SCRAM takes for the password of `token_id`."""
        return base64.b64encode(self.hmac).decode("ascii")


async def require_tokens(cluster: Cluster, timeout_s: float | None = None) -> None:
    """Whether the cluster can make tokens for others at all, whoever may have them made.

    Raises:
        TokenRefused: it cannot; says what it takes.
        ClusterUnavailable: no answer in time.
    """
    least = int(_FOR_OTHERS[0])
    request = DescribeDelegationTokenRequest(owners=[])
    node = next(iter(cluster.view.brokers), 0)
    try:
        connection = await cluster.connection(node, CONTROL_LANE, timeout_s)
        if connection.version(least) < _FOR_OTHERS[1]:
            raise TokenRefused(_TOO_OLD)
    except UnsupportedVersion:
        raise TokenRefused(_TOO_OLD) from None
    answer = await connection.request(request)
    if answer.error_code in _REASONS:
        raise TokenRefused(f"no delegation tokens: {_REASONS[answer.error_code]}")


async def create_token(cluster: Cluster, owner: str, lifetime_s: float, timeout_s: float | None = None) -> Token:
    """Have a token made for `User:owner`, good for `lifetime_s` at most, and wait until brokers know it.

    Raises:
        TokenRefused: the cluster does not make one.
        ClusterUnavailable: no answer in time; a token may have been made, which expires by itself.
    """
    if not 0 < len(owner) <= MAX_NAME:
        raise TokenRefused(f"a principal's name has 1 to {MAX_NAME} characters, not {len(owner)}")
    kind = CreateDelegationTokenRequest.CreatableRenewers
    own = cluster.config.login()[0]  # who else but the owner may end it
    request = CreateDelegationTokenRequest(
        owner_principal_type=PRINCIPAL_TYPE,
        owner_principal_name=owner,
        renewers=[kind(principal_type=PRINCIPAL_TYPE, principal_name=own)] if own else [],
        max_lifetime_ms=int(lifetime_s * 1000),
    )
    try:
        answer = await on_controller(cluster, lambda _: request, lambda each: (each,), timeout_s, least=_FOR_OTHERS)
    except UnsupportedVersion:
        raise TokenRefused(_TOO_OLD) from None
    _check(owner, answer.error_code)
    token = Token(answer.token_id, bytes(answer.hmac), (answer.expiry_timestamp_ms - answer.issue_timestamp_ms) / 1000)
    await _until_known(cluster, owner, token.token_id)  # before that it cannot be ended either
    if answer.principal_name == answer.token_requester_principal_name:
        # For itself anybody may make a token, so no ACL stands between a client of this name and the gateway's rights.
        await expire_token(cluster, token)
        raise TokenRefused(f"User:{owner} is this gateway's own principal: no client may come as it")
    return token


async def expire_token(cluster: Cluster, token: Token, timeout_s: float | None = None) -> None:
    """End a token at once, if the cluster can be reached: else it ends by itself. Open connections stay."""
    request = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
    try:
        await on_controller(cluster, lambda _: request, lambda each: (each,), timeout_s)
    except NetError:
        return


def _check(owner: str, code: int) -> None:
    if not code:
        return
    if code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED:
        raise TokenRefused(f"this gateway's principal lacks the ACL CreateTokens on User:{owner}")
    if code in _RETRIABLE:
        raise ClusterUnavailable(f"no delegation token for User:{owner}: {error_name(code)}")
    raise TokenRefused(f"no delegation token for User:{owner}: {_REASONS.get(code, error_name(code))}")


async def _until_known(cluster: Cluster, owner: str, token_id: str) -> None:
    """Brokers hear of a token from the controller: who logs in before is refused. Gives up on a broker in the end."""
    deadline = asyncio.get_running_loop().time() + _KNOWN_S
    await asyncio.gather(*(_until_known_at(cluster, node, owner, token_id, deadline) for node in cluster.view.brokers))


async def _until_known_at(cluster: Cluster, node: int, owner: str, token_id: str, deadline: float) -> None:
    loop = asyncio.get_running_loop()
    kind = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
    request = DescribeDelegationTokenRequest(
        owners=[kind(principal_type=PRINCIPAL_TYPE, principal_name=owner)],
    )
    backoff = Backoff(0.01, 0.25, cluster.rng)
    while loop.time() < deadline:
        try:
            answer = await cluster.request(request, node_id=node, timeout_s=max(0.001, deadline - loop.time()))
        except NetError:
            return
        if answer.error_code or any(token.token_id == token_id for token in answer.tokens):
            return
        await asyncio.sleep(backoff.next())


async def token_owners(cluster: Cluster, timeout_s: float | None = None) -> Mapping[str, int]:
    """Principal -> tokens that it owns, of those that this principal may see.

    Raises:
        TokenRefused: the cluster has none, or does not tell.
        ClusterUnavailable: no answer in time.
    """
    try:
        answer = await cluster.request(DescribeDelegationTokenRequest(owners=None), timeout_s=timeout_s)
    except UnsupportedVersion:
        return {}
    if answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED:
        return {}
    if answer.error_code:
        raise TokenRefused(f"delegation tokens: {_REASONS.get(answer.error_code, error_name(answer.error_code))}")
    return Counter(f"{token.principal_type}:{token.principal_name}" for token in answer.tokens)
