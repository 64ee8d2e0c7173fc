"""DeleteTopics: v1-6, CreatePartitions, DeleteRecords, AlterConfigs and IncrementalAlterConfigs of mirror topics.

Behaviour: refused with POLICY_VIOLATION while the topic is not promoted (`proxy/rules/mirror_topics.py`), to who has
the right to do it; to others with TOPIC_AUTHORIZATION_FAILED. The target is asked on the client's own connection. What
else the request names is served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.cutover.write_pause.rules.routing import RoutingTable, WritePhase
from gateway.proxy.handlers.partly_refused import answer_refused, serve_rest
from gateway.proxy.produce.authorization import may_change
from gateway.proxy.rules.mirror_topics import OPERATIONS, entries_of, name_of, refuse
from gateway.proxy.rules.refusals import bounded

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session


class MirrorTopicGuard:
    """See the module's docstring."""

    def __init__(self, *, routing: RoutingTable) -> None:
        self._routing = routing

    def intercepts(self, session: Session) -> bool:
        return bool(self._routing.current.topics)

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()
        key, routing = exchange.api_key, self._routing.current

        def name(entry: Any) -> str:
            return name_of(key, entry, routing.topic_ids)

        why = {}
        for topic in map(name, entries_of(key, request)):
            route = routing.topics.get(topic)
            if route is not None and route.phase is not WritePhase.SWITCHED:
                why[topic] = f"{topic} is a mirror topic of link {route.link}: promote it or delete the mirror first"
        if not why:
            exchange.forward()
            return
        bounded(entries_of(key, request))
        again = lambda: session.again(lambda: self.handle(session, exchange))  # noqa: E731
        allowed = may_change(session, why, OPERATIONS[key], again)
        if allowed is None:
            return  # asked; handled again when the target has answered
        refusal = refuse(key, request, name, why, allowed)
        if not refusal.rest:
            answer_refused(exchange, refusal)
            return
        serve_rest(exchange, request, refusal)
        exchange.forward()
