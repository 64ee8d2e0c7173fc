"""What a cluster answers to who asks for tokens of others, as one line that says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.kafka.access.delegation_tokens import TokenRefused, create_token, expire_token, require_tokens
from gateway.kafka.connection.errors import ClusterUnavailable
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import (
    CreateDelegationTokenResponse,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenResponse,
    MetadataResponse,
)
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import FakeBroker, Request


class Broker(FakeBroker):
    """One that makes tokens; `code`: or refuses to. `known_after`: how often it is asked until it knows a token."""

    code = int(ErrorCode.NONE)
    described = int(ErrorCode.NONE)
    requester = "gateway"
    known_after = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.handlers |= {
            ApiKey.METADATA: lambda _: self._metadata(),
            ApiKey.CREATE_DELEGATION_TOKEN: self._create,
            ApiKey.DESCRIBE_DELEGATION_TOKEN: self._describe,
            ApiKey.EXPIRE_DELEGATION_TOKEN: lambda _: ExpireDelegationTokenResponse(error_code=0),
        }

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _metadata(self) -> Any:
        broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port, rack=None)
        return MetadataResponse(brokers=[broker], cluster_id="c", controller_id=1, topics=[])

    def _create(self, request: Request) -> Any:
        return CreateDelegationTokenResponse(
            error_code=self.code,
            principal_type="User",
            principal_name=request.message.owner_principal_name,
            token_requester_principal_type="User",
            token_requester_principal_name=self.requester,
            issue_timestamp_ms=1_000_000,
            expiry_timestamp_ms=1_000_000 + request.message.max_lifetime_ms,
            max_timestamp_ms=0,
            token_id="id",
            hmac=b"\1\2",
            throttle_time_ms=0,
        )

    def _describe(self, _: Request) -> Any:
        kind = DescribeDelegationTokenResponse.DescribedDelegationToken
        token = kind(principal_type="User", principal_name="alice", token_id="id", hmac=b"", renewers=[])
        known = len(self.asked(ApiKey.DESCRIBE_DELEGATION_TOKEN)) >= self.known_after
        return DescribeDelegationTokenResponse(error_code=self.described, tokens=[token] if known else [])


async def test_a_token_is_for_its_owner_and_known_when_it_is_handed_out(client: OpenCluster) -> None:
    async with Broker() as broker:
        cluster = await client(broker.bootstrap)
        token = await create_token(cluster, "alice", 60.0)
        assert (token.token_id, token.password, token.lifetime_s) == ("id", "AQI=", 60.0)
        (asked,) = broker.asked(ApiKey.CREATE_DELEGATION_TOKEN)
        assert (asked.message.owner_principal_type, asked.message.owner_principal_name) == ("User", "alice")
        assert len(broker.asked(ApiKey.DESCRIBE_DELEGATION_TOKEN)) == 2
        await expire_token(cluster, token)
        (ended,) = broker.asked(ApiKey.EXPIRE_DELEGATION_TOKEN)
        assert (bytes(ended.message.hmac), ended.message.expiry_time_period_ms) == (b"\1\2", -1)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "lacks the ACL CreateTokens on User:alice"),
        (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "no delegation.token.secret.key"),
        (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "the gateway has to log in itself"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "UNKNOWN_SERVER_ERROR"),
    ],
)
async def test_refusals_name_what_is_missing(client: OpenCluster, code: ErrorCode, said: str) -> None:
    async with Broker() as broker:
        broker.code = int(code)
        cluster = await client(broker.bootstrap)
        with pytest.raises(TokenRefused, match=said) as error:
            await create_token(cluster, "alice", 60.0)
        assert "\n" not in str(error.value)


async def test_a_cluster_that_is_busy_is_asked_again_by_the_next_one(client: OpenCluster) -> None:
    async with Broker() as broker:
        broker.code = int(ErrorCode.REQUEST_TIMED_OUT)
        cluster = await client(broker.bootstrap)
        with pytest.raises(ClusterUnavailable) as error:
            await create_token(cluster, "alice", 60.0)
        assert not isinstance(error.value, TokenRefused)


async def test_the_gateways_own_principal_is_nobody_elses(client: OpenCluster) -> None:
    """It needs no ACL for itself. The token that was made ends."""
    async with Broker() as broker:
        broker.requester = "alice"
        cluster = await client(broker.bootstrap)
        with pytest.raises(TokenRefused, match="own principal"):
            await create_token(cluster, "alice", 60.0)
        assert broker.asked(ApiKey.EXPIRE_DELEGATION_TOKEN)
        for name in ("", "x" * 2_000):
            with pytest.raises(TokenRefused, match="1 to 1024 characters"):
                await create_token(cluster, name, 60.0)


async def test_a_cluster_from_before_kip_373_is_said_so(client: OpenCluster) -> None:
    """Kafka 2.8 makes tokens for oneself only; KRaft before 3.6 makes none."""
    for versions in ((1, 2), None):
        async with Broker() as broker:
            del broker.versions[ApiKey.CREATE_DELEGATION_TOKEN]
            if versions is not None:
                broker.versions[ApiKey.CREATE_DELEGATION_TOKEN] = versions
            cluster = await client(broker.bootstrap)
            for asked in (create_token(cluster, "alice", 60.0), require_tokens(cluster)):
                with pytest.raises(
                    TokenRefused, match=r"too old .*KIP-373.* Kafka 3\.6 with KRaft, 3\.3 with ZooKeeper$"
                ):
                    await asked


async def test_whether_a_cluster_makes_tokens_at_all(client: OpenCluster) -> None:
    async with Broker() as broker:
        cluster = await client(broker.bootstrap)
        await require_tokens(cluster)
        broker.described = int(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        with pytest.raises(TokenRefused, match=r"no delegation\.token\.secret\.key"):
            await require_tokens(cluster)
