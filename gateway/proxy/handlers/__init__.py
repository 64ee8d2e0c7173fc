"""One file per intercepted API. `install` is the table of who handles what."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from gateway.proxy.handlers.add_offsets_to_txn import AddOffsetsToTxnHandler
from gateway.proxy.handlers.add_partitions_to_txn import AddPartitionsToTxnHandler
from gateway.proxy.handlers.api_versions import ApiVersionsHandler
from gateway.proxy.handlers.consumer_group_heartbeat import ConsumerGroupHeartbeatHandler
from gateway.proxy.handlers.create_topics import CreateTopicsHandler, MirrorTopicGuard
from gateway.proxy.handlers.describe_cluster import DescribeClusterHandler
from gateway.proxy.handlers.end_txn import EndTxnHandler
from gateway.proxy.handlers.fetch import FetchHandler
from gateway.proxy.handlers.find_coordinator import FindCoordinatorHandler
from gateway.proxy.handlers.heartbeat import HeartbeatHandler
from gateway.proxy.handlers.init_producer_id import InitProducerIdHandler
from gateway.proxy.handlers.join_group import JoinGroupHandler
from gateway.proxy.handlers.list_offsets import ListOffsetsHandler
from gateway.proxy.handlers.metadata import MetadataHandler
from gateway.proxy.handlers.offset_commit import OffsetCommitHandler
from gateway.proxy.handlers.offset_fetch import OffsetFetchHandler
from gateway.proxy.handlers.produce import ProduceHandler
from gateway.proxy.handlers.sasl import SaslHandler
from gateway.proxy.handlers.txn_offset_commit import TxnOffsetCommitHandler
from gateway.proxy.transaction_fences import TransactionFences
from protocol.apis import ApiKey

if TYPE_CHECKING:
    from gateway.proxy.context import Handler, ProxyContext


def install(context: ProxyContext, rng: random.Random) -> None:
    """Give the context its handlers. An API without one is always opaque."""
    context.forwarder.transactions = TransactionFences(context.transactions, context.standings, context.clock)
    sasl = SaslHandler(context)
    guard = MirrorTopicGuard(context)
    table: dict[ApiKey, Handler] = {
        ApiKey.PRODUCE: ProduceHandler(context),
        ApiKey.FETCH: FetchHandler(context),
        ApiKey.LIST_OFFSETS: ListOffsetsHandler(context),
        ApiKey.METADATA: MetadataHandler(context),
        ApiKey.OFFSET_COMMIT: OffsetCommitHandler(context),
        ApiKey.OFFSET_FETCH: OffsetFetchHandler(context),
        ApiKey.FIND_COORDINATOR: FindCoordinatorHandler(context),
        ApiKey.JOIN_GROUP: JoinGroupHandler(context, rng),
        ApiKey.HEARTBEAT: HeartbeatHandler(context),
        ApiKey.SASL_HANDSHAKE: sasl,
        ApiKey.API_VERSIONS: ApiVersionsHandler(context),
        ApiKey.CREATE_TOPICS: CreateTopicsHandler(context),
        ApiKey.DELETE_TOPICS: guard,
        ApiKey.DELETE_RECORDS: guard,
        ApiKey.INIT_PRODUCER_ID: InitProducerIdHandler(context),
        ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnHandler(context),
        ApiKey.ADD_OFFSETS_TO_TXN: AddOffsetsToTxnHandler(context),
        ApiKey.END_TXN: EndTxnHandler(context),
        ApiKey.TXN_OFFSET_COMMIT: TxnOffsetCommitHandler(context),
        ApiKey.SASL_AUTHENTICATE: sasl,
        ApiKey.CREATE_PARTITIONS: guard,
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterHandler(context),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatHandler(context),
    }
    for key, handler in table.items():
        context.handlers[key] = handler
