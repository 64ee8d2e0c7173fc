"""What the application's clients share: a file of their own that says where everything is, and who they are."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

from demo.carry.orders import Orders
from demo.carry.registry import Registry


class ClientConfig(NamedTuple):
    """What an operator changes at a restart.

    Attributes:
        kafka: properties of librdkafka, the login among them.
        registry: its URL.
        version: by which of the schemas a producer writes, counted from 0.
    """

    kafka: dict[str, str]
    registry: str
    version: int = 0


def write_config(path: Path, config: ClientConfig) -> None:
    """For the client alone: it has a password in it."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(config._asdict()), encoding="utf-8")


def read_config(path: Path) -> ClientConfig:
    """What `write_config` has written."""
    return ClientConfig(**json.loads(path.read_text(encoding="utf-8")))


def arguments(*more: tuple[str, type]) -> argparse.Namespace:
    """`config`, `name` and `topic`, and what a client needs beside."""
    parser = argparse.ArgumentParser()
    for option, kind in (("--config", Path), ("--name", str), ("--topic", str), *more):
        parser.add_argument(option, type=kind, required=True)
    return parser.parse_args()


def orders_of(config: ClientConfig) -> Orders:
    """Reads records with the schemas of the registry that the client knows."""
    return Orders(Registry(config.registry).schema)


def consumer_properties(config: ClientConfig, name: str, group: str) -> dict[str, Any]:
    """Of any consumer."""
    return {**config.kafka, "client.id": name, "group.id": group}
