"""Whatever command the gateway names in a message, a remedy or a help text is one that there is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import typer

from gateway.cli.jobs.job import COMMANDS as JOBS
from gateway.cli.main import app
from tests.support.pages.golden import _paths

GATEWAY = Path(__file__).resolve().parents[3] / "gateway"
COMMANDS = {*_paths(typer.main.get_command(app), ()), *(("job", name) for name in JOBS)} - {()}
ROOMS = {path[:1] for path in COMMANDS if len(path) > 1}


def test_every_command_that_is_named_is_there() -> None:
    named = [(path, words) for path in sorted(GATEWAY.rglob("*.py")) for words in advised(path.read_text("utf-8"))]
    assert len(named) > 80
    assert [(str(path.relative_to(GATEWAY)), " ".join(words)) for path, words in named if not is_there(words)] == []


def test_a_command_that_is_not_there_is_found() -> None:
    text = '''why = "translate them with `lockgate job translate`, or lockgate mirror promote --yes"'''
    assert [words for words in advised(text) if not is_there(words)] == [("job", "translate")]


def advised(source: str) -> Iterator[tuple[str, ...]]:
    """The words behind `lockgate` in the texts of a module, where the first of them is a command or a room of some."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for line in re.findall(r"\blockgate((?: [a-z][a-z-]*){1,3})", node.value):
                words = tuple(line.split())
                if words[:1] in ROOMS | COMMANDS:
                    yield words


def is_there(words: tuple[str, ...]) -> bool:
    """A command, or the beginning of one that the text goes on with (a name, or what a gateway puts in)."""
    return words[:1] not in ROOMS or len(words) == 1 or words[:2] in COMMANDS
