"""Where a client wants to by the server name of its TLS handshake (SNI): read once, while hands are shaken.

Nothing is looked at per request: the name says which broker the session is with and which addresses it is told, as the
port does elsewhere. A name that is nobody's ends the handshake with TLS's own alert, before any key is made.
"""

from __future__ import annotations

import ssl
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog

from gateway.proxy.rules.admission import Admission
from gateway.proxy.rules.server_names import ServerNames, UnknownNameError
from gateway.proxy.session.listener import Listener
from gateway.telemetry.printable import printable

_log = structlog.get_logger("lockgate.proxy")
LIMIT = "server_name"
_SHOWN = 80

Place = tuple[int | None, Listener]
"""A broker, or bootstrap, and where its client finds the others."""

_places: weakref.WeakKeyDictionary[Any, Place] = weakref.WeakKeyDictionary()
"""By TLS connection, from its first message until its session begins."""


def place_of(tls: object) -> Place | None:
    """What a client asked for by name; None: it did not."""
    return None if tls is None else _places.pop(tls, None)


class ServerNameReader:
    """Args.

    is_known: whether the target has this broker.
    """

    def __init__(self, admission: Admission, is_known: Callable[[int], bool]) -> None:
        self._admission = admission
        self._is_known = is_known

    def context(self, listener: Listener) -> ssl.SSLContext:
        """The one of now. Raises ValueError for a listener without TLS."""
        if listener.tls is None:
            raise ValueError("a listener without TLS hears no server names")
        context, names = listener.tls(), listener.names
        if names is not None and context.sni_callback is None:

            def read(tls: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int | None:
                return self._read(listener, names, tls, name or "")

            context.sni_callback = read
        return context

    def _read(self, listener: Listener, names: ServerNames, tls: object, name: str) -> int | None:
        try:
            node_id = names.node_of(name)
        except UnknownNameError:
            if listener.has_ports:  # as clients come that are told ports
                return None
            return self._refused(listener, name)
        if node_id is not None and not self._is_known(node_id):
            return self._refused(listener, name)
        _places[tls] = (node_id, listener if listener.by_name else replace(listener, by_name=True))
        return None

    def _refused(self, listener: Listener, name: str) -> int:
        self._admission.count(LIMIT)
        count = self._admission.refused[LIMIT]
        if not count & (count - 1):  # the 1st, 2nd, 4th ...: a flood must not fill the log
            _log.warning(
                "a client is not accepted: the server name of its TLS is no broker's",
                limit=LIMIT,
                name=printable(name[:_SHOWN]),
                listener=listener.name or "listener",
                so_far=count,
            )
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
