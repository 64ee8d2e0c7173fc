"""Whether the ACLs of the target are those of the source, as far as the states of the mirror topics say. Pure.

Said anew here, not asked of the product: of a topic that is not promoted, a right to write is for the gateways' hosts
only, and leaves DESCRIBE for all; of one that is promoted, it is as the source has it. Nothing else is there, and what
somebody else has made on the target stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from tests.simulation.kafka.acls import ALLOW, DENY, DESCRIBE, TOPIC, WRITE, Acl

GATEWAYS: Final = "10.0.0.1"
"""The only host from which topics that are not promoted may be written."""


def narrowed(acl: Acl) -> set[Acl]:
    """What the target has of it until its topic is promoted."""
    if (acl.resource_type, acl.operation, acl.permission) != (TOPIC, WRITE, ALLOW):
        return {acl}
    return {acl._replace(host=GATEWAYS), acl._replace(operation=DESCRIBE)}


def unlike(
    now: Collection[Acl],
    ever: Collection[Acl],
    target: Collection[Acl],
    own: Collection[Acl],
    promoted: Collection[str],
) -> list[str]:
    """What is wrong with the target's ACLs once nothing changes any more, a line each.

    Args:
        now: the ACLs of the source. ever: those that it had at any time.
        own: the target's own ones.
        promoted: topics that are written on the target. Their ACLs are the target's business from the promote on, so
            what the source has changed since may be there or not.
    """

    def follows(acl: Acl) -> bool:
        return acl.resource_type != TOPIC or acl.name not in promoted

    wanted = {each for acl in now if follows(acl) for each in narrowed(acl)}
    there = {acl for acl in target if follows(acl)}
    strange = {acl for acl in target if not follows(acl) and acl not in own and acl not in ever}
    return [
        *(f"missing: {acl}" for acl in sorted(wanted - there)),
        *(f"not of the source: {acl}" for acl in sorted(there - wanted - set(own))),
        *(f"not of the source, and promoted: {acl}" for acl in sorted(strange)),
        *(f"the target's own one is gone: {acl}" for acl in sorted(set(own) - set(target))),
    ]


def lost_or_given(
    before: Collection[Acl], after: Collection[Acl], source: Collection[Collection[Acl]], own: Collection[Acl]
) -> Iterator[str]:
    """What a change of the target's ACLs has done to somebody's right that the source did not, a line each.

    Hosts are left aside: a right for the gateways' hosts only is one.

    Args:
        source: the ACLs that the source had, one after the other, in the time in which the change may have been
            decided.
        own: the target's own ones.
    """
    of = {(acl.principal, acl.resource_type, acl.name, acl.operation) for acl in {*before, *after}}
    for right in sorted(of):
        had, has = _may(before, *right), _may(after, *right)
        who, _, name, operation = right
        what = f"operation {operation} on {name}"
        if had and not has and all(_may(acls, *right) for acls in source):
            yield f"{who} has lost {what}, which the source gives him"
        if has and not had and not any(_may(acls, *right) for acls in (*source, own)):
            yield f"{who} was given {what}, which the source does not give him"


def _may(acls: Collection[Acl], who: str, resource_type: int, name: str, operation: int) -> bool:
    """An ALLOW of WRITE brings DESCRIBE along; a DENY takes nothing but what it names."""
    operations = (operation, WRITE) if operation == DESCRIBE else (operation,)
    said = {
        (acl.operation, acl.permission)
        for acl in acls
        if (acl.resource_type, acl.name, acl.principal) == (resource_type, name, who)
    }
    return any((each, ALLOW) in said for each in operations) and (operation, DENY) not in said
