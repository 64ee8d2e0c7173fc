"""A topic's configs on a real cluster, read and changed from outside."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource
from confluent_kafka.admin._resource import ResourceType


def alter(bootstrap: str, topic: str, configs: Mapping[str, str]) -> None:
    """Set some configs, leave the others."""
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


def configs_of(bootstrap: str, topic: str) -> dict[str, str]:
    """The configs in force."""
    return {name: entry.value or "" for name, entry in _described(bootstrap, topic).items()}


def own_configs_of(bootstrap: str, topic: str) -> dict[str, str]:
    """The configs that are set on the topic itself."""
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG
    described = _described(bootstrap, topic).items()
    return {name: entry.value or "" for name, entry in described if ConfigSource(entry.source) is own}


def _described(bootstrap: str, topic: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(30)
    return found
