"""What a link remembers of the ACLs that it copies: the ones it has made on the target, and those it holds back.

One record for each resource of a link. A cluster's ACLs have no owner, so this is all that tells a link's own ACLs from
those that the target had before: what is not here is never deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AclState(StrEnum):
    """MAKING: it was not there, and is about to be made, or whether it was made is not known. MADE: it was. HELD: the
    source grants it, and the target is not to have it yet."""

    MAKING = "MAKING"
    MADE = "MADE"
    HELD = "HELD"


@dataclass(frozen=True, slots=True)
class AclEntry:
    """One ACL on the record's resource, in Kafka's words."""

    principal: str
    host: str
    operation: str
    permission: str
    state: AclState = AclState.MAKING


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRecord:
    """The ACLs of a link on one resource of the target. `name` may hold any character.

    `link_id`: of the link that made them; another link of the same name knows nothing of them. `settled`: the resource
    was promoted and had all of its ACLs: until it is mirrored again, what the source does with them is not followed.
    """

    link: str
    link_id: int
    resource_type: str
    pattern_type: str
    name: str
    entries: tuple[AclEntry, ...] = ()
    settled: bool = False
