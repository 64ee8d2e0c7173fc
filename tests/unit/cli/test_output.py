"""`-o json` and `-o yaml`: on every command that asks a gateway, and nothing else on stdout then."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import typer
import yaml

from gateway.cli.main import app

WITHOUT = {
    "serve": "runs until it is stopped",
    "quickstart": "a story, told step by step",
    "job": "results are files and a table; see docs/guides/jobs.md",
    "dev": "brokers of this machine; no gateway is asked",
    "health": "its answer is the exit code",
    "report": "files, and whether a signature is right",
    "migration schema": "it is JSON",
    "version": "one line, and no gateway is asked",
    "help": "it is the help",
}


def commands(group: typer.Typer, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Callable[..., Any]]]:
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*path, command.name or command.callback.__name__), command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, (*path, inner.name or inner.typer_instance.info.name or "?"))


def test_every_command_has_it() -> None:
    found = dict(commands(app))
    assert len(found) > 30
    lacking = [" ".join(path) for path, call in found.items() if "output" not in inspect.signature(call).parameters]
    assert not [path for path in lacking if path not in WITHOUT and path.split()[0] not in WITHOUT]


def test_what_is_deleted_is_named(linked, run) -> None:
    run("mirror", "create", "orders", "clicks", "--link", "l")
    plan = json.loads(run("mirror", "delete", "orders", "--link", "l", "--force", "--dry-run", "-o", "json").stdout)
    assert plan["data"][0]["mirror_topic_name"] == "orders"
    deleted = json.loads(run("mirror", "delete", "orders", "clicks", "--link", "l", "--force", "-o", "json").stdout)
    assert deleted["data"][0] == {
        "link_name": "l",
        "mirror_topic_name": "orders",
        "deleted": True,
        "topic_deleted": False,
    }
    assert len(deleted["data"]) == 2
    gone = run("mirror", "delete", "orders", "--link", "l", "-o", "json", code=1)
    assert json.loads(gone.stdout) == {"data": []}
    assert yaml.safe_load(run("link", "delete", "l", "-o", "yaml").stdout) == {"link_name": "l", "deleted": True}
