"""A migration of two topics in two waves, each an application of its own."""

from __future__ import annotations

from typing import Any

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic
from tests.support.gateways.gateway import GatewayProcess


def two_waves(source: DevCluster, link: str, topic: str, *, rest: str, stop_when: dict[str, Any]) -> dict[str, Any]:
    """The file of a migration that is called like the topic of its first wave, and has `…-second` in the second one.

    Both topics are made on the source, with one partition.
    """
    second = f"{topic}-second"
    for name in (topic, second):
        create_topic(source.bootstrap, name, partitions=1)
    return {
        "migration": topic,
        "link": link,
        "failback_keep": "0",
        "waves": [["first"], ["second"]],
        "wave_rest": rest,
        "stop_when": stop_when,
        "applications": [{"name": "first", "topics": [topic]}, {"name": "second", "topics": [second]}],
    }


def shown(gateway: GatewayProcess, name: str) -> dict[str, Any]:
    """What `migration status` shows; while nobody answers, the answer in place of the state."""
    answer = gateway.api.get(f"/v3/migrations/{name}")
    found: dict[str, Any] = answer.json() if answer.is_success else {"state": answer.text, "applications": []}
    return found
