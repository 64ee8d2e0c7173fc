"""The records of the state topic that are about the gateways, whatever is mirrored: their ports, and their fleet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SECRET_BYTES: Final = 32
OLDER: Final = 20  # more than processes of one name can begin and die within a session of the group
READS_TABLES: Final = 3
"""Of a gateway that reads producer tables from records of their own. (2: `fleet/rules/assignment.py`, PACKED.)"""
DEPARTED: Final = 100  # likewise of gateways that stop in order, or die and are started again


@dataclass(frozen=True, slots=True)
class PortRecord:
    """The listener port of one target broker, kept so that it survives restarts."""

    node_id: int
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRecord:
    """A gateway that was admitted to the fleet: it may write to sources until it is known to have stopped, or presumed.

    `name` stays over restarts, `incarnation` is one per process. `peer`: host:port for the other gateways. `bootstrap`:
    where its clients connect. `lease_ms`: for how long it may go on without having been heard of. `place`: where it
    held the lock of its name (`transport/name_lock.py`), '' for nowhere. `succeeded`: the name that another process
    has taken while this one was not known to have stopped; its own `name` is made from both then
    (`membership.predecessor`). `keys`: ids of the keys that it has for secrets of links, with commas between
    (`operations/secrets/sealing.py`). `older`: incarnations that had the name before this one, the latest first, at
    most `OLDER`: the group may count them yet. `reads`: the newest forms that it understands, of what gateways tell one
    another and of these records: what a number stands for is told where it is defined.
    """

    name: str
    incarnation: str
    role: str
    peer: str
    lease_ms: int
    bootstrap: str = ""
    since_ms: int = 0
    place: str = ""
    succeeded: str = ""
    keys: str = ""
    older: tuple[str, ...] = ()
    reads: int = 1


@dataclass(frozen=True, slots=True)
class FleetRecord:
    """What the gateways of a fleet share.

    `secret`: by which they know one another, encrypted where they have a key. `departed`: incarnations that write
    nothing more, since they said so or another process holds the lock of their name, the latest first, at most
    `DEPARTED`: the group may count them yet.
    """

    secret: str
    departed: tuple[str, ...] = ()
