"""Which rights on the target a migration takes, beyond those to create its topics, and why. Pure.

Brokers tell which operations their authorizer allows a user on a topic, or on the cluster, as bits (KIP-430): bit n is
AclOperation n. A topic need not exist for that: an ACL goes by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

NOT_TOLD: Final = -(2**31)
"""What a broker answers that was not asked, or does not know."""


class NeededRight(NamedTuple):
    """`bit`: the AclOperation. `why`: what cannot be done without it, for people."""

    bit: int
    name: str
    why: str


NEEDED: Final = (
    NeededRight(3, "READ", "its end is read back, and offsets of groups are committed for it"),
    NeededRight(4, "WRITE", "records are appended to it"),
    NeededRight(10, "DESCRIBE_CONFIGS", "its configs are compared with the source's"),
    NeededRight(
        11, "ALTER_CONFIGS", "its configs follow the source's, and its retention is switched on at the promote"
    ),
)
"""On each mirror topic."""

DELETE: Final = NeededRight(6, "DELETE", "what the source deletes is deleted there by DeleteRecords")
"""On mirror topics whose records the source deletes by time or size."""

ALTER: Final = NeededRight(7, "ALTER", "partitions that the source adds cannot be added there")
"""On each mirror topic, to follow the source; no mirror fails without it at once."""

DESCRIBE: Final = NeededRight(
    8, "DESCRIBE", "an audit is not told the sizes of its logs, and explains nothing there by retention.bytes"
)
"""On the target's cluster."""


def may(operations: int, right: NeededRight) -> bool:
    """Whether a broker's answer has a right in it."""
    return bool(operations >> right.bit & 1)


def missing(operations: int, configs: Mapping[str, str]) -> tuple[NeededRight, ...]:
    """The rights on a mirror topic without which its migration fails.

    Args:
        operations: as the target's broker told them; 0 for a user who may not even describe the topic.
        configs: of the source's topic.
    """
    deletes = "delete" in configs.get("cleanup.policy", "delete")
    return tuple(right for right in (*NEEDED, *([DELETE] if deletes else [])) if not may(operations, right))


DESCRIBE_TOPIC: Final = NeededRight(8, "DESCRIBE", "the gateway does not know that it is there")
CREATE: Final = NeededRight(5, "CREATE", "a gateway cannot make it at its first start")

OWN: Final = (
    NeededRight(3, "READ", "no gateway knows what the fleet has decided"),
    NeededRight(4, "WRITE", "no gateway can lead, so nothing is decided"),
    NeededRight(10, "DESCRIBE_CONFIGS", "a gateway does not start without having seen that the topic is durable"),
)
"""On each topic of lockgate's own, on the target."""

READ_GROUP: Final = NeededRight(3, "READ", "its offsets cannot be carried over")
READ_FLEET: Final = NeededRight(3, "READ", "gateways cannot form a fleet, so none starts")
"""On the target."""

SOURCE: Final = (
    NeededRight(3, "READ", "it cannot be mirrored"),
    NeededRight(10, "DESCRIBE_CONFIGS", "its configs do not follow, and a mirror of it is refused"),
)
"""On each topic that is mirrored, on the source."""

SOURCE_WRITE: Final = NeededRight(4, "WRITE", "what clients write through the gateway before the promote is refused")
"""On each of them, with `link.identity=link`."""

DESCRIBE_GROUP: Final = NeededRight(8, "DESCRIBE", "who is in it, and how far it has read, is not known")
LIST_GROUPS: Final = NeededRight(8, "DESCRIBE", "the list of its groups is not told, so no group is promoted by itself")
"""On the source, of a group and of the cluster."""
