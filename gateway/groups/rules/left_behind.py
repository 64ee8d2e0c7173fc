"""Members that did not leave their group on the source when they were closed. Pure.

A Kafka Streams application, and any static member, does not leave on close: its group keeps it for its session timeout,
and waits. Brokers do not tell of a member whether its process lives. What a gateway can see is whether somebody waits
at its gate under the same name: under the instance id, which is one process's own, or else under the client id.
Processes may share a client id; so all that have it must be waiting before one of them counts as gone. Even that is a
sign and no proof, so people are asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.errors import Conflict, NotFound
from gateway.groups.gate.rules.gates import Waiter
from gateway.kafka.groups import MemberView


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """`waits`: its process waits at the gateway, as far as names tell. `session_timeout_s`: as it says when it joins
    there; 0 when it does not wait, or does not say."""

    member: MemberView
    waits: bool
    session_timeout_s: float


def left_behind(members: Sequence[MemberView], waiters: Sequence[Waiter]) -> list[LeftBehind]:
    """Every member on the source, with what is known of its process."""
    instances = {one.instance_id: one for one in waiters if one.instance_id}
    by_client: dict[str, Waiter] = {one.identity.client_id: one for one in waiters if not one.instance_id}
    waiting = Counter(one.identity.client_id for one in waiters if not one.instance_id)
    there = Counter(one.client_id for one in members if not one.instance_id)
    found = []
    for one in members:
        waiter = instances.get(one.instance_id) if one.instance_id else by_client.get(one.client_id)
        all_wait = bool(one.instance_id) or waiting[one.client_id] >= there[one.client_id]
        timeout_s = 0.0 if waiter is None else waiter.session_timeout_s
        found.append(LeftBehind(one, waiter is not None and all_wait, timeout_s))
    return found


def to_remove(found: Sequence[LeftBehind], member_ids: Sequence[str], *, force: bool) -> list[LeftBehind]:
    """Those that are named; none named: those that wait, with `force` all.

    Raises:
        NotFound: one that is named is no member. Conflict: one that is named may live, without `force`.
    """
    if not member_ids:
        return [one for one in found if one.waits or force]
    by_id = {one.member.member_id: one for one in found}
    chosen = []
    for member_id in dict.fromkeys(member_ids):
        one = by_id.get(member_id)
        if one is None:
            raise NotFound(f"the group has no member '{member_id}' on the source")
        if not one.waits and not force:
            raise Conflict(
                f"member '{member_id}' ({one.member.client_id} at {one.member.host}) may be alive: not all that have "
                "its name wait at the gateway; use force when you know that its process is gone"
            )
        chosen.append(one)
    return chosen
