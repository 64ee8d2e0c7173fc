"""SCRAM users of a cluster on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.kafka.access.scram_users import create_scram_users, describe_scram_users
from gateway.kafka.admin import AdminError
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.kafka.rules.scram import ScramCredential, ScramKey, ScramMechanism, salted
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import (
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponse,
)
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import HANG_UP, Request
from tests.support.fakes.lone_broker import LoneBroker

ALICE = ScramKey("alice", ScramMechanism.SHA_512)


class Broker(LoneBroker):
    """`there`: user, mechanism, iterations. `refuses`: users. `sent`: what it was asked to store."""

    there: tuple[tuple[str, int, int], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.handlers |= {
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self._describe,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: self._alter,
        }

    def _describe(self, request: Request) -> Any:
        assert request.message.users is None
        kind = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
        results = [
            kind(
                user=user,
                error_code=0,
                error_message=None,
                credential_infos=[kind.CredentialInfo(mechanism=mechanism, iterations=iterations)],
            )
            for user, mechanism, iterations in self.there
        ]
        return DescribeUserScramCredentialsResponse(
            throttle_time_ms=0, error_code=self.code, error_message=None, results=results
        )

    def _alter(self, request: Request) -> Any:
        kind = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
        self.sent += [
            (one.name, one.mechanism, one.iterations, bytes(one.salt), bytes(one.salted_password))
            for one in request.message.upsertions
        ]
        assert not request.message.deletions
        results = [
            kind(
                user=one.name,
                error_code=int(ErrorCode.UNACCEPTABLE_CREDENTIAL) if one.name in self.refuses else 0,
                error_message="too few iterations" if one.name in self.refuses else None,
            )
            for one in request.message.upsertions
        ]
        return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)


async def test_who_there_is(client: OpenCluster) -> None:
    async with Broker() as broker:
        broker.there = (("alice", 2, 8192), ("bob", 1, 4096), ("carol", 9, 1))
        found = await describe_scram_users(await client(broker.bootstrap))
    assert found == {ALICE: 8192, ScramKey("bob", ScramMechanism.SHA_256): 4096}


async def test_a_refusal_to_tell(client: OpenCluster) -> None:
    async with Broker() as broker:
        broker.code = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        with pytest.raises(AdminError, match="describe SCRAM users: CLUSTER_AUTHORIZATION_FAILED"):
            await describe_scram_users(await client(broker.bootstrap))


async def test_new_ones_are_sent_salted(client: OpenCluster) -> None:
    made = salted(ALICE, 8192, b"0123456789abcdef", "hush")
    other = ScramCredential(ScramKey("bob", ScramMechanism.SHA_256), 1, b"s", b"p")
    async with Broker() as broker:
        broker.refuses = frozenset({"bob"})
        refused = await create_scram_users(await client(broker.bootstrap), [made, other])
    assert broker.sent[0] == ("alice", 2, 8192, b"0123456789abcdef", made.salted_password)
    assert {key.user: str(error) for key, error in refused.items()} == {
        "bob": "SCRAM user bob, SCRAM-SHA-256: too few iterations"
    }


async def test_a_user_stands_in_a_request_once(client: OpenCluster) -> None:
    twice = [ScramCredential(ScramKey("a", mechanism), 4096, b"s", b"p") for mechanism in ScramMechanism]
    async with Broker() as broker:
        with pytest.raises(ValueError, match="2 credentials of 1 users"):
            await create_scram_users(await client(broker.bootstrap), twice)


async def test_a_change_is_sent_once(client: OpenCluster) -> None:
    async with Broker() as broker:
        asked: list[Request] = []

        def hang_up(request: Request) -> Any:
            asked.append(request)
            return HANG_UP

        broker.handlers[ApiKey.ALTER_USER_SCRAM_CREDENTIALS] = hang_up
        with pytest.raises(ClusterUnavailable):
            await create_scram_users(await client(broker.bootstrap), [ScramCredential(ALICE, 4096, b"s", b"p")])
        assert len(asked) == 1
