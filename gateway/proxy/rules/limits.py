"""Limits of what clients may use of a gateway. They are checked per connection or per request, never per byte."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """See docs/operate/listeners.md. Defaults are in `gateway/config/listeners.py`.

    Attributes:
        connections: open connections of clients.
        connections_per_address: open connections of one address (IPv6: of one /64).
        connections_per_second: new connections of one address; bursts of twice as many are allowed.
        handshakes_per_second: TLS handshakes of one address; bursts of twice as many are allowed.
        login_request_bytes: the largest request before a login, like Kafka's `sasl.server.max.receive.size`.
        login_timeout_s: from the connection, or from the start of a re-authentication, until the target accepts it.
        request_timeout_s: for a request to arrive completely, while the gateway reads it.
        unread_output_bytes: answers waiting for their turn; beyond that the connection is not read.
        elements_per_request: array elements in a decoded request (topics, partitions, groups ...).
        groups_per_request: groups in one OffsetFetch.
        waiters_per_principal: group members at gates; more may wait, but do not count as waiters.
        rights_kept_s: how long the target's answers about a client's rights are cached.
        held_request_bytes: requests that wait in the gateway, over all connections.
        held_answer_bytes: answers that clients have not read yet, over all connections.
        forwarded_bytes_per_second: one principal's writes to sources; 0: unlimited.
    """

    connections: int
    connections_per_address: int
    connections_per_second: int
    handshakes_per_second: int
    login_request_bytes: int
    login_timeout_s: float
    request_timeout_s: float
    unread_output_bytes: int
    elements_per_request: int
    groups_per_request: int
    waiters_per_principal: int
    rights_kept_s: float
    held_request_bytes: int
    held_answer_bytes: int
    forwarded_bytes_per_second: int
