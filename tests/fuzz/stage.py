"""Where conversations take place: a shipped gateway between two clusters in memory, in the midst of a migration.

It is set up once and then copied by `fork` for each conversation, so that each begins at the very same instant: what a
conversation does depends on its own steps alone.

On the stage: `mirrored` is mirrored from the source and written there; `promoted` was, and is written on the target;
`plain` is the target's own, and has a large record; `later` is on the source alone. Group `gated` has committed on the
source, `local` on the target.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final
from uuid import UUID

from gateway.api.access.credentials import Credentials
from gateway.api.access.guard import Guard, GuardPolicy
from gateway.api.access.roles import Role
from gateway.proxy.session.context import Sessions
from protocol.codec import encode_request
from protocol.messages import OffsetCommitRequest
from tests.fuzz.login_broker import GATEWAY, LoginSession, secured
from tests.fuzz.loop import FuzzLoop
from tests.fuzz.values import Filler
from tests.simulation.fleet import logs
from tests.simulation.fleet.gateway_node import GatewayNode
from tests.simulation.kafka.broker import Session
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.operations.operator import Operator
from tests.support.fakes.model_cluster import batch_of, produce_request

NAME: Final = "gw-0"
API_HOST: Final = "127.0.0.1"
PEER_PORT: Final = 9393
RECORD_BYTES: Final = 200_000
TOKENS: Final[Mapping[str, Role]] = {
    "admin-token-of-the-stage": Role.ADMIN,
    "operator-token-of-the-stage": Role.OPERATOR,
    "viewer-token-of-the-stage": Role.VIEWER,
}
_SEED: Final = 1
_LIVELY: Final = {"group.initial.rebalance.delay.ms": "0", "transaction.state.log.min.isr": "1"}
_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "groups": {"quiet_period_s": 1},
    "listener": {"protocol": "SASL_PLAINTEXT"},
    "fleet": {"peer_port": PEER_PORT},
    "target": {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": GATEWAY,
        "sasl.password": GATEWAY,
    },
}
SMALL_LIMITS: Final[Mapping[str, Any]] = {
    "unread_output_bytes": 65_536,
    "held_request_bytes": 1_048_576,
    "held_answer_bytes": 1_048_576,
    "login_request_bytes": 16_384,
    "login_timeout_s": 5.0,
    "request_timeout_s": 5.0,
    "waiters_per_principal": 3,
    "groups_per_request": 5,
    "connections_per_address": 4,
}

STAGES: Final[Mapping[str, Mapping[str, Any]]] = {"as it comes": {}, "small limits": SMALL_LIMITS}


class Stage:
    """See the module. `limits`: of the section of that name.

    Attributes:
        entries: lines of the gateway's log, from warnings on.
        guard: REST as it is served, from the guard on.
    """

    def __init__(self, limits: Mapping[str, Any]) -> None:
        self.loop = loop = FuzzLoop(_SEED, NAME)
        self.entries: list[logs.Entry] = []
        self.source = ClusterModel(
            loop, name="source", brokers=1, version="3.9.1", configs=_LIVELY, rng=loop.random("s")
        )
        self.target = ClusterModel(
            loop, name="target", brokers=1, version="4.3.1", configs=_LIVELY, rng=loop.random("t")
        )
        secured(self.target, Filler(Random(_SEED)))
        self.node = GatewayNode(loop, NAME, self.target.bootstrap, {**_SETTINGS, "limits": limits})
        self.guard: Callable[..., Any]

    @property
    def sessions(self) -> Sessions:
        """Of the gateway."""
        return self.node.gateway._data.sessions

    @property
    def topic_ids(self) -> list[UUID]:
        """Of topics on the target."""
        return list(self.target.topics_by_id)

    def logged(self, entry: logs.Entry) -> None:
        """A line of anybody's log, with what was raised."""
        if entry.fields.get("exc_info") is True:
            entry.fields["exc_info"] = traceback.format_exc(limit=-3)
        self.entries.append(entry)

    async def set_up(self) -> None:
        """Until everything is as the module says."""
        for cluster in (self.source, self.target):
            await cluster.start()
        for topic in ("mirrored", "promoted", "later"):
            self.source.create_topic(topic, 2)
        self.target.create_topic("plain", 2)
        await _commit(self.source, "gated", "mirrored")
        await _commit(self.target, "local", "plain", "alice")
        await _asked(self.target, produce_request({("plain", 0): batch_of(bytes(RECORD_BYTES))}), 9, "alice")
        await self.node.start()
        operator = Operator(lambda: [self.node], self.loop.time, lambda _text: None)
        await operator.create_link(self.source.bootstrap)
        await operator.create("mirrored")
        await operator.create("promoted")
        await operator.promote(["promoted"])
        credentials = Credentials([(role.name.lower(), role, token) for token, role in TOKENS.items()])
        self.guard = Guard(
            self.node.forwarding,  # type: ignore[arg-type]
            lambda: credentials,
            GuardPolicy(hosts=frozenset({"gateway"}), max_body_bytes=65_536),
            self.node.gateway._forwarding.audit,
            self.node.gateway._forwarding.table,
        )


async def _commit(cluster: ClusterModel, group: str, topic: str, user: str = "") -> None:
    """An offset of a consumer that assigns its partitions itself."""
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    part = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    message = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[kind(name=topic, partitions=[part])],
    )
    await _asked(cluster, message, 7, user)


async def _asked(cluster: ClusterModel, message: Any, version: int, user: str) -> None:
    """Of a broker, without a network."""
    session = LoginSession(principal=user) if user else Session()
    answer = await cluster.brokers[1].handle(encode_request(message, version, 1, "stage")[4:], session)
    assert answer is not None
