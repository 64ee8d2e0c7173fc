"""Serves producers of mirrored topics while their target broker cannot be reached: their writes are the source's.

A session whose broker does not take a connection is not closed but answered from here: ApiVersions as it was last
answered, Metadata as the target was last seen, Produce as ever while all of its topics are written on a source.
Anything else closes the connection, as before. As soon as the broker takes connections again, the session is drained:
its client comes back to the broker itself.

Only where the target asks for no authentication: nobody could be authenticated meanwhile. Who may write is known from
before (`SessionContext.rights`); of a client nobody has asked about, the write is refused retriably.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from gateway.cutover.write_pause.rules.routing import RoutingTable, WritePhase
from gateway.kafka.cluster import Cluster
from gateway.kafka.view import TopicView
from gateway.proxy.rules.last_rights import LastRights
from gateway.proxy.rules.own_names import is_own
from gateway.proxy.session.addresses import as_seen_by
from gateway.proxy.session.exchange import Exchange
from gateway.proxy.session.session import Handler, Session
from protocol.apis import ApiKey
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.messages import MetadataResponse
from protocol.produce import scan_request

_API_VERSIONS, _METADATA, _PRODUCE = int(ApiKey.API_VERSIONS), int(ApiKey.METADATA), int(ApiKey.PRODUCE)
_NO_OPERATIONS = -(2**31)
_log = structlog.get_logger("lockgate.proxy")


class TargetDown:
    """One per gateway; a `Handler` of every API of the sessions that it took. `sessions`: those.

    Args:
        handlers: who serves an API while the target is there, by key.
        rights: see `SessionContext`.
        advertised: where clients find a broker of the target: (node id, host, port) -> (host, port).
    """

    def __init__(
        self,
        target: Cluster,
        routing: RoutingTable,
        handlers: Sequence[Handler | None],
        rights: LastRights,
        advertised: Callable[[int, str, int], tuple[str, int]],
    ) -> None:
        self._target = target
        self._routing = routing
        self._handlers = handlers
        self._rights = rights
        self._advertised = advertised
        self.sessions: dict[Session, None] = {}
        self.api_versions: dict[int, bytes] = {}  # version -> the body that was answered last

    def takes(self, session: Session) -> bool:
        """Take a session that has no broker. False: there is nothing to be served without one."""
        if session.closed or self._target.config.uses_sasl or not any(map(_on_source, self._phases())):
            return False
        if not self.sessions:
            _log.warning("the target is not reached: clients of mirrored topics are served from its last known state")
        self.sessions[session] = None
        session.on_close.append(lambda: self.sessions.pop(session, None))
        session.target_down = self
        session.resume()
        return True

    def intercepts(self, session: Session) -> bool:
        """Everything."""
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        """Answer from what is known, or close."""
        if exchange.api_key == _API_VERSIONS and exchange.api_version in self.api_versions:
            exchange.reply(self.api_versions[exchange.api_version])
        elif exchange.api_key == _METADATA:
            exchange.reply_framed(self._metadata(exchange))
        elif exchange.api_key == _PRODUCE:
            self._produce(session, exchange)
        else:
            session.close("target broker unreachable: the request needs it")

    def _phases(self) -> list[WritePhase]:
        return [route.phase for route in self._routing.current.topics.values()]

    # -- Produce -------------------------------------------------------------------------------------------------

    def _produce(self, session: Session, exchange: Exchange) -> None:
        handler = self._handlers[_PRODUCE]
        view = scan_request(exchange.body, exchange.api_version)
        routes = self._routing.current.topics
        topics = {part[0] for part in view.parts}
        served = all(topic in routes and _on_source(routes[topic].phase) for topic in topics)
        known = all(self._rights.may_write(session.principal, topic) is not None for topic in topics)
        if handler is None or view.transactional_id is not None or not (served and known):
            session.close("target broker unreachable: the write needs it")
            return
        handler.handle(session, exchange)

    # -- Metadata ------------------------------------------------------------------------------------------------

    def _metadata(self, exchange: Exchange) -> bytes:
        """The target as last seen. Whatever is not known has no leader now: clients ask again."""
        view = self._target.view
        request = exchange.request()
        asked = None if request.topics is None else [topic.name for topic in request.topics if topic.name]
        everything = asked is None or (exchange.api_version == 0 and not asked)
        names = [name for name in (sorted(view.topics) if everything else asked or ()) if not is_own(name)]
        brokers, told = [], as_seen_by(exchange.session, self._advertised)
        for node, broker in view.brokers.items():
            host, port = told(node, broker.host, broker.port)
            brokers.append(
                MetadataResponse.MetadataResponseBroker(node_id=node, host=host, port=port, rack=broker.rack)
            )
        response = MetadataResponse(
            throttle_time_ms=0,
            brokers=brokers,
            cluster_id=view.cluster_id,
            controller_id=-1 if view.controller_id is None else view.controller_id,
            topics=[_topic(name, view.topics.get(name)) for name in names],
            cluster_authorized_operations=_NO_OPERATIONS,
            error_code=0,
        )
        return encode_response(response, _METADATA, exchange.api_version, exchange.correlation_id)


def _on_source(phase: WritePhase) -> bool:
    return phase is not WritePhase.SWITCHED


def _topic(name: str, known: TopicView | None) -> Any:
    parts = []
    for index, partition in sorted(known.partitions.items()) if known is not None else ():
        parts.append(
            MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
                error_code=0 if partition.leader >= 0 else int(ErrorCode.LEADER_NOT_AVAILABLE),
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.replicas),
                offline_replicas=[],
            )
        )
    return MetadataResponse.MetadataResponseTopic(
        error_code=int(ErrorCode.NONE if parts else ErrorCode.LEADER_NOT_AVAILABLE),
        name=name,
        topic_id=uuid.UUID(bytes=known.topic_id if known is not None else bytes(16)),
        is_internal=known is not None and known.internal,
        partitions=parts,
        topic_authorized_operations=_NO_OPERATIONS,
    )
