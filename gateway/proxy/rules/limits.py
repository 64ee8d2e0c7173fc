"""How much clients may take of a gateway. All of it is looked at per connection or per request, never per byte."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """See docs/security.md.

    Attributes:
        connections: of clients, at a time.
        connections_per_address: of one address (IPv6: of one /64) at a time.
        connections_per_second: new ones of one address; twice as many may come at once.
        login_request_bytes: the largest request before a login, as Kafka's `sasl.server.max.receive.size`.
        login_timeout_s: from a connection, or from the beginning of another login, to the target's consent.
        request_timeout_s: for a request to arrive whole, while the gateway reads it.
        unread_output_bytes: answers that wait for their turn; from then on the connection is not read.
        elements_per_request: array elements of a request that is decoded (topics, partitions, groups ...).
        groups_per_request: groups in one OffsetFetch.
        waiters_per_principal: groups' members at gates; others wait too, but are not counted as waiters.
        rights_kept_s: for how long the target's answers about a client's rights count; then it is asked again.
        held_request_bytes: of requests that wait in the gateway, all connections together.
        forwarded_bytes_per_second: of one principal's writes that go to sources; 0: any number.
    """

    connections: int = 10_000
    connections_per_address: int = 5_000
    connections_per_second: int = 1_000
    login_request_bytes: int = 524_288
    login_timeout_s: float = 30.0
    request_timeout_s: float = 60.0
    unread_output_bytes: int = 8_388_608
    elements_per_request: int = 10_000
    groups_per_request: int = 1_000
    waiters_per_principal: int = 10_000
    rights_kept_s: float = 30.0
    held_request_bytes: int = 536_870_912
    forwarded_bytes_per_second: int = 0
