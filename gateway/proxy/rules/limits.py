"""How much clients may take of a gateway. All of it is looked at per connection or per request, never per byte."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """See docs/operate/listeners.md. Defaults are in `gateway/config/listeners.py`.

    Attributes:
        connections: of clients, at a time.
        connections_per_address: of one address (IPv6: of one /64) at a time.
        connections_per_second: new ones of one address; twice as many may come at once.
        handshakes_per_second: of TLS, of one address; twice as many may come at once.
        login_request_bytes: the largest request before a login, as Kafka's `sasl.server.max.receive.size`.
        login_timeout_s: from a connection, or from the beginning of another login, to the target's consent.
        request_timeout_s: for a request to arrive whole, while the gateway reads it.
        unread_output_bytes: answers that wait for their turn; from then on the connection is not read.
        elements_per_request: array elements of a request that is decoded (topics, partitions, groups ...).
        groups_per_request: groups in one OffsetFetch.
        waiters_per_principal: groups' members at gates; others wait too, but are not counted as waiters.
        rights_kept_s: for how long the target's answers about a client's rights count; then it is asked again.
        held_request_bytes: of requests that wait in the gateway, all connections together.
        held_answer_bytes: of answers that their clients have not taken, all connections together.
        forwarded_bytes_per_second: of one principal's writes that go to sources; 0: any number.
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
