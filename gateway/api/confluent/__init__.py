"""/kafka/v3/clusters/{cluster_id}/links: links and mirror topics under Confluent's paths, in Confluent's shapes.

For what was written for Confluent's REST API: scripts, generated clients, providers of other tools. It stands beside
`/v3/links`, never in its place: `/v3` tells what Confluent has no field for (modes, who has not moved, what a failover
leaves behind), and clients that are generated from Confluent's description may refuse a field that is not in it. So the
bodies here have exactly its fields. Both carry out the same operations; nothing is decided here.

Fields, paths, statuses: https://docs.confluent.io/cloud/current/api.html, Cluster Linking (v3).
docs/compare/cluster-linking.md says which of them mean something else here.
"""

from __future__ import annotations

from gateway.api.confluent import alter, configs, links, mirrors
from gateway.api.plane import Plane
from gateway.api.routes import Routes


def routers(plane: Plane) -> tuple[Routes, ...]:
    """All of them, in the order in which paths are looked up: `-` for every link before the name of one."""
    return links.router(plane), configs.router(plane), mirrors.router(plane), alter.router(plane)
