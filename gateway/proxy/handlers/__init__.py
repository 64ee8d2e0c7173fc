"""One file per intercepted API. `install` is the table of who handles what."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from gateway.groups.gate.rules.gates import GroupGates
from gateway.kafka.cluster import Cluster
from gateway.mirror.rules.progress import MirrorProgress
from gateway.proxy.handlers.api_versions import ApiVersionsHandler
from gateway.proxy.handlers.consumer_group_heartbeat import ConsumerGroupHeartbeatHandler
from gateway.proxy.handlers.create_topics import CreateTopicsHandler
from gateway.proxy.handlers.describe_cluster import DescribeClusterHandler
from gateway.proxy.handlers.describe_groups import DescribeGroupsHandler
from gateway.proxy.handlers.fetch import FetchHandler
from gateway.proxy.handlers.find_coordinator import FindCoordinatorHandler
from gateway.proxy.handlers.group_deletes import DeleteGroupsHandler, OffsetDeleteHandler, ShareOffsetsHandler
from gateway.proxy.handlers.heartbeat import HeartbeatHandler
from gateway.proxy.handlers.join_group import JoinGroupHandler
from gateway.proxy.handlers.list_offsets import ListOffsetsHandler
from gateway.proxy.handlers.metadata import MetadataHandler
from gateway.proxy.handlers.mirror_topics import MirrorTopicGuard
from gateway.proxy.handlers.offset_commit import OffsetCommitHandler
from gateway.proxy.handlers.offset_fetch import OffsetFetchHandler, SourceOffsets
from gateway.proxy.handlers.own_names import OwnNamesGuard
from gateway.proxy.handlers.produce import ProduceHandler
from gateway.proxy.handlers.sasl import SaslHandler
from gateway.proxy.handlers.share_groups import GatedGroupHandler, ShareAcknowledgeHandler, ShareFetchHandler
from gateway.proxy.handlers.source_questions import SourceQuestions
from gateway.proxy.handlers.transactions.add_offsets_to_txn import AddOffsetsToTxnHandler
from gateway.proxy.handlers.transactions.add_partitions_to_txn import AddPartitionsToTxnHandler
from gateway.proxy.handlers.transactions.end_txn import EndTxnHandler
from gateway.proxy.handlers.transactions.init_producer_id import InitProducerIdHandler
from gateway.proxy.handlers.transactions.txn_offset_commit import TxnOffsetCommitHandler
from gateway.proxy.produce.after_cutover import AfterCutover
from gateway.proxy.produce.forwarded_produce import SourceWrites
from gateway.proxy.produce.forwarder import Forwarder
from gateway.proxy.produce.target_down import TargetDown
from gateway.proxy.rules.own_entries import RULES, SHOWN
from gateway.proxy.session.addresses import Advertised
from gateway.proxy.session.context import Sessions
from gateway.proxy.session.session import Handler
from gateway.proxy.transactions.adding import TransactionAdding
from gateway.proxy.transactions.group_sides import GroupSides
from gateway.proxy.transactions.placement import TopicPlacements
from gateway.proxy.transactions.transactions import Transactions
from gateway.proxy.transactions.write_pause import TransactionPauses
from gateway.topics.interface import SourceTopics
from protocol.apis import ADVERTISED, ApiKey


def install(
    sessions: Sessions,
    *,
    gates: GroupGates,
    progress: MirrorProgress,
    source_topics: SourceTopics,
    source_offsets: SourceOffsets,
    target: Cluster,
    sources: Mapping[str, Cluster],
    forwarder: Forwarder,
    placements: TopicPlacements,
    transactions: Transactions,
    target_down: TargetDown,
    advertised: Advertised,
    groupless_allowed: bool,
    on_forwarded: Callable[[str, int, int, int], None],
    rng: random.Random,
) -> None:
    """Give the sessions their handlers. An API without one is always opaque.

    Args:
        sources: by link.
        groupless_allowed: whether a client of no group may read what is mirrored while groups are gated.
        on_forwarded: (mirror topic, partition, base offset, records) committed by the source.
    """
    routing = sessions.routing
    forwarder.transactions = TransactionPauses(transactions, placements, sessions.clock)
    after_cutover = AfterCutover(
        routing=routing, target=target, sources=sources, clock=sessions.clock, spawn=sessions.spawn
    )
    rests = sessions.stats.rests

    def throttled(topic: str) -> str:
        route = routing.current.topics.get(topic)
        return "" if route is None else rests.why(route.link)

    forwarder.throttled = throttled
    writes = SourceWrites(
        unanswered=after_cutover.unanswered,
        forwarder=forwarder,
        sources=sources,
        progress=progress,
        transactions=transactions,
        on_forwarded=on_forwarded,
        may_write=sessions.wires.may_write,
        lease_valid=sessions.lease_valid,
        clock=sessions.clock,
        quotas=sessions.quotas,
        rests=rests,
        loop=sessions.loop,
    )
    adding = TransactionAdding(
        transactions=transactions,
        placements=placements,
        routing=routing,
        stats=sessions.stats,
        clock=sessions.clock,
    )
    questions = SourceQuestions(source_topics)
    groups = GroupSides(gates=gates, placements=placements, clock=sessions.clock)
    sasl = SaslHandler()
    guard = MirrorTopicGuard(routing=routing)
    table: dict[ApiKey, Handler] = {
        ApiKey.PRODUCE: ProduceHandler(
            writes=writes,
            routing=routing,
            placements=placements,
            stats=sessions.stats,
            passes_writes=sessions.passes_writes,
            after_cutover=after_cutover,
        ),
        ApiKey.FETCH: FetchHandler(
            routing=routing, gates=gates, groupless_allowed=groupless_allowed, clock=sessions.clock, loop=sessions.loop
        ),
        ApiKey.LIST_OFFSETS: ListOffsetsHandler(routing=routing),
        ApiKey.METADATA: MetadataHandler(
            sources=sources,
            advertised=advertised,
            routing=routing,
            target=target,
            loop=sessions.loop,
            spawn=sessions.spawn,
            questions=questions,
            stats=sessions.stats,
        ),
        ApiKey.OFFSET_COMMIT: OffsetCommitHandler(gates=gates, lease_valid=sessions.lease_valid),
        ApiKey.OFFSET_FETCH: OffsetFetchHandler(
            gates=gates, offsets=source_offsets, spawn=sessions.spawn, loop=sessions.loop
        ),
        ApiKey.FIND_COORDINATOR: FindCoordinatorHandler(gates=gates, advertised=advertised),
        ApiKey.JOIN_GROUP: JoinGroupHandler(gates=gates, rng=rng),
        ApiKey.HEARTBEAT: HeartbeatHandler(gates=gates),
        ApiKey.DESCRIBE_GROUPS: DescribeGroupsHandler(ApiKey.DESCRIBE_GROUPS, gates=gates),
        ApiKey.SASL_HANDSHAKE: sasl,
        ApiKey.API_VERSIONS: ApiVersionsHandler(target_down=target_down),
        ApiKey.CREATE_TOPICS: CreateTopicsHandler(
            sources=sources, spawn=sessions.spawn, loop=sessions.loop, questions=questions, stats=sessions.stats
        ),
        ApiKey.DELETE_TOPICS: guard,
        ApiKey.DELETE_RECORDS: guard,
        ApiKey.INIT_PRODUCER_ID: InitProducerIdHandler(
            routing=routing,
            transactions=transactions,
            placements=placements,
            target_id=lambda: target.view.cluster_id,
        ),
        ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnHandler(
            adding=adding,
            transactions=transactions,
            placements=placements,
            routing=routing,
            forwarder=forwarder,
            clock=sessions.clock,
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: AddOffsetsToTxnHandler(
            adding=adding, groups=groups, transactions=transactions, routing=routing, clock=sessions.clock
        ),
        ApiKey.DELETE_GROUPS: DeleteGroupsHandler(gates=gates),
        ApiKey.OFFSET_DELETE: OffsetDeleteHandler(gates=gates),
        ApiKey.END_TXN: EndTxnHandler(routing=routing, transactions=transactions),
        ApiKey.TXN_OFFSET_COMMIT: TxnOffsetCommitHandler(routing=routing, transactions=transactions, groups=groups),
        ApiKey.ALTER_CONFIGS: guard,
        ApiKey.SASL_AUTHENTICATE: sasl,
        ApiKey.CREATE_PARTITIONS: guard,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: guard,
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterHandler(advertised=advertised),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatHandler(gates=gates),
        ApiKey.CONSUMER_GROUP_DESCRIBE: DescribeGroupsHandler(ApiKey.CONSUMER_GROUP_DESCRIBE, gates=gates),
        ApiKey.SHARE_GROUP_HEARTBEAT: GatedGroupHandler(ApiKey.SHARE_GROUP_HEARTBEAT, gates=gates),
        ApiKey.SHARE_FETCH: ShareFetchHandler(gates=gates, advertised=advertised),
        ApiKey.SHARE_ACKNOWLEDGE: ShareAcknowledgeHandler(advertised=advertised),
        ApiKey.STREAMS_GROUP_HEARTBEAT: GatedGroupHandler(ApiKey.STREAMS_GROUP_HEARTBEAT, gates=gates),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: ShareOffsetsHandler(ApiKey.ALTER_SHARE_GROUP_OFFSETS, gates=gates),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: ShareOffsetsHandler(ApiKey.DELETE_SHARE_GROUP_OFFSETS, gates=gates),
    }
    for key in ADVERTISED.keys() | table.keys():
        sessions.handlers[key] = _guarded(ApiKey(key), table.get(ApiKey(key)))


def _guarded(key: ApiKey, handler: Handler | None) -> Handler | None:
    """Nothing of the gateway's own is served to clients."""
    if key not in RULES and key not in SHOWN:  # nothing of the gateway's can be named; Produce's handler looks itself
        return handler
    return OwnNamesGuard(key, handler, collects=key is not ApiKey.FETCH)
