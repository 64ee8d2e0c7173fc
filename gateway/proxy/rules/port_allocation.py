"""Which listener port stands for which target broker. Pure.

Ports are given out from a base port in order of first appearance and never change: node ids may be 1001 or
30000, brokers come and go, and clients keep addresses for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

MAX_PORT = 65_535


class PortError(ValueError):
    """No port for a broker; the message names the node and the setting to change."""


def allocate(
    node_ids: Iterable[int],
    *,
    known: Mapping[int, int],
    base_port: int,
    explicit: Mapping[int, int],
    reserved: AbstractSet[int] = frozenset(),
) -> dict[int, int]:
    """Port by node id for each of `node_ids`.

    Args:
        known: what was given out before, by node id, brokers that are gone included.
        base_port: the first port to give out; new nodes get theirs in ascending order of node id.
        explicit: if not empty, the whole answer: a node it lacks is an error.
        reserved: ports never given out (bootstrap port, API port).

    Raises:
        PortError: the explicit map lacks a node, or there is no port left.
    """
    nodes = sorted(set(node_ids))
    if explicit:
        missing = [node for node in nodes if node not in explicit]
        if missing:
            raise PortError(f"listener.ports has no port for broker {missing[0]} of the target")
        return {node: explicit[node] for node in nodes}
    ports = {node: known[node] for node in nodes if node in known}
    taken = {*known.values(), *reserved}
    candidate = base_port
    for node in nodes:
        if node in ports:
            continue
        while candidate in taken:
            candidate += 1
        if candidate > MAX_PORT:
            raise PortError(f"no port left for broker {node} of the target: listener.base_port is {base_port}")
        ports[node] = candidate
        taken.add(candidate)
    return ports
