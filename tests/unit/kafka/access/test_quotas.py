"""Client quotas of a cluster on the wire: those that are meant, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.kafka.access.quotas import IN_A_REQUEST, describe_quotas, set_quotas
from gateway.kafka.admin import AdminError
from gateway.kafka.rules.quota import EntityType, QuotaEntityPart, QuotaKey
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import AlterClientQuotasResponse, DescribeClientQuotasResponse
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import Request
from tests.support.fakes.lone_broker import LoneBroker

ALICE, APP = QuotaEntityPart(EntityType.USER, "alice"), QuotaEntityPart(EntityType.CLIENT_ID, "app")
BOTH = QuotaKey((ALICE, APP), "producer_byte_rate")
DEFAULT_IP = QuotaKey((QuotaEntityPart(EntityType.IP, None),), "connection_creation_rate")


class Broker(LoneBroker):
    """`there`: entity parts and values. `refuses`: names. `sent`: (entity, key, value, remove)."""

    there: tuple[tuple[tuple[tuple[str, str | None], ...], dict[str, float]], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.handlers |= {
            ApiKey.DESCRIBE_CLIENT_QUOTAS: self._describe,
            ApiKey.ALTER_CLIENT_QUOTAS: self._alter,
        }

    def _describe(self, request: Request) -> Any:
        assert (list(request.message.components), request.message.strict) == ([], False)
        kind = DescribeClientQuotasResponse.EntryData
        entries = [
            kind(
                entity=[kind.EntityData(entity_type=what, entity_name=name) for what, name in entity],
                values=[kind.ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in self.there
        ]
        return DescribeClientQuotasResponse(
            throttle_time_ms=0, error_code=self.code, error_message=None, entries=entries
        )

    def _alter(self, request: Request) -> Any:
        kind = AlterClientQuotasResponse.EntryData
        results = []
        for entry in request.message.entries:
            entity = tuple((part.entity_type, part.entity_name) for part in entry.entity)
            self.sent += [(entity, op.key, op.value, op.remove) for op in entry.ops]
            refused = any(name in self.refuses for _, name in entity)
            results.append(
                kind(
                    error_code=int(ErrorCode.INVALID_REQUEST) if refused else 0,
                    error_message=None,
                    entity=[kind.EntityData(entity_type=what, entity_name=name) for what, name in entity],
                )
            )
        assert not request.message.validate_only
        return AlterClientQuotasResponse(throttle_time_ms=0, entries=results)


async def test_quotas_are_read(client: OpenCluster) -> None:
    async with Broker() as broker:
        broker.there = (
            ((("client-id", "app"), ("user", "alice")), {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0}),
            ((("ip", None),), {"connection_creation_rate": 3.0}),
            ((("tenant", "x"),), {"new": 4.0}),
        )
        found = await describe_quotas(await client(broker.bootstrap))
    assert found == {BOTH: 1.0, BOTH._replace(key="consumer_byte_rate"): 2.0, DEFAULT_IP: 3.0}


async def test_a_refusal_to_tell(client: OpenCluster) -> None:
    async with Broker() as broker:
        broker.code = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        with pytest.raises(AdminError, match="describe client quotas: CLUSTER_AUTHORIZATION_FAILED"):
            await describe_quotas(await client(broker.bootstrap))


async def test_quotas_are_set_by_entity(client: OpenCluster) -> None:
    wanted = {BOTH: 5.0, BOTH._replace(key="consumer_byte_rate"): 6.0, DEFAULT_IP: 7.0}
    async with Broker() as broker:
        broker.refuses = frozenset({"alice"})
        refused = await set_quotas(await client(broker.bootstrap), wanted)
    entity = (("user", "alice"), ("client-id", "app"))
    assert broker.sent == [
        (entity, "producer_byte_rate", 5.0, False),
        (entity, "consumer_byte_rate", 6.0, False),
        ((("ip", None),), "connection_creation_rate", 7.0, False),
    ]
    assert {key.words for key in refused} == {
        "user alice, client-id app: producer_byte_rate",
        "user alice, client-id app: consumer_byte_rate",
    }


async def test_requests_are_bounded(client: OpenCluster) -> None:
    many = {QuotaKey((QuotaEntityPart(EntityType.USER, str(index)),), "x"): 1.0 for index in range(IN_A_REQUEST + 1)}
    async with Broker() as broker:
        with pytest.raises(ValueError, match="101 quotas in one request"):
            await set_quotas(await client(broker.bootstrap), many)
