"""What is the gateway's own does not exist for clients: topics, groups, transactional ids that begin with `__lockgate`.

Whatever the target's ACLs say, wildcards among them, and where it has no authoriser too. `rules/own_entries.py` says
what is refused and hidden. `Produce` and `Fetch`, which mostly pass without being collected, are looked at in
`session/from_client.py`; a `Produce` is refused by its handler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from gateway.proxy.handlers.partly_refused import answer_refused, edit, serve_rest
from gateway.proxy.rules.own_entries import RULES, SHOWN, without_own
from gateway.proxy.rules.own_names import PREFIX
from protocol.apis import ApiKey

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Handler, Session

_PREFIX = PREFIX.encode()
_log = structlog.get_logger("lockgate.proxy")


class OwnNamesGuard:
    """In front of a handler (or of none, where requests of the API pass): refuses and hides what is ours.

    `collects`: every request of the API is collected for it; else those that the handler wants, and those of which the
    session has seen that they may name something of ours.
    """

    def __init__(self, key: ApiKey, inner: Handler | None, *, collects: bool = True) -> None:
        self._rule = RULES.get(key)
        self._shows = key in SHOWN
        self._inner = inner
        if inner is not None and not collects:
            self.intercepts = inner.intercepts  # type: ignore[method-assign]

    def intercepts(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        own = session.context.own_names
        if self._rule is not None and own.in_bytes(bytes(exchange.body)):
            request = exchange.request()
            refusal = self._rule(request, lambda topic_id: topic_id is not None and topic_id.bytes in own.ids)
            if refusal is not None:
                _log.warning(
                    "a client named what is the gateway's own",
                    client=session.host,
                    principal=session.principal,
                    api=exchange.api_key,
                )
                if not refusal.rest:
                    answer_refused(exchange, refusal)
                    return
                serve_rest(exchange, request, refusal)
        if self._shows:
            edit(exchange, lambda answer: without_own(exchange.api_key, answer), only_with=_PREFIX)
        if self._inner is None or not self._inner.intercepts(session):
            exchange.forward()
        else:
            self._inner.handle(session, exchange)
