"""Who takes part: two producers, a consumer group of one, a share group of two; each under a name of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from demo.carry.rights import APP, BILLING, PACKING, WEB
from demo.carry.settings import GROUP, SHARE_GROUP, TOPIC, CarrySettings
from demo.commands import Part, Role


def cast(settings: CarrySettings, configs: Path) -> tuple[Part, ...]:
    """The clients, in the order in which they are moved. `configs`: the folder with a file for each."""
    return (
        _producer(settings, configs, WEB),
        _producer(settings, configs, APP),
        _member(configs, BILLING, GROUP, "reader"),
        *(_member(configs, name, SHARE_GROUP, "share_reader") for name in PACKING),
    )


def config_of(configs: Path, name: str) -> Path:
    """A client's own file."""
    return configs / f"{name}.json"


def _producer(settings: CarrySettings, configs: Path, name: str) -> Part:
    def command(_bootstrap: str, first: int) -> list[str]:
        options = ["--rate", f"{settings.rate:.3f}", "--first", str(first), "--partitions", str(settings.partitions)]
        return [*_python("producer", configs, name), *options]

    return Part(name, "confluent-kafka", Role.PRODUCER, "", command)


def _member(configs: Path, name: str, group: str, module: str) -> Part:
    def command(_bootstrap: str, _first: int) -> list[str]:
        return [*_python(module, configs, name), "--group", group]

    return Part(name, "confluent-kafka", Role.MEMBER, group, command)


def _python(module: str, configs: Path, name: str) -> list[str]:
    own = ["--config", str(config_of(configs, name)), "--name", name, "--topic", TOPIC]
    return [sys.executable, "-m", f"demo.carry.clients.{module}", *own]
