"""What users and their programs have learnt by heart: `python -m tests.support.pages.golden` writes it down anew.

The description of the REST API and the help of every command, byte for byte. A change of them is a change for users: it
is made on purpose, and stands in the commit with the rest. Names and meanings of metrics are in
docs/reference/metrics.md (`metrics_page.py`), states in docs/reference/states.md (`states_page.py`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final
from unittest import mock

import typer
from typer.testing import CliRunner

from gateway.cli.main import app
from tests.support.control.shared_app import shared_app

FOLDER: Final = Path(__file__).parents[2] / "golden"
_TERMINAL: Final = {"COLUMNS": "120", "TERMINAL_WIDTH": "120", "NO_COLOR": "1", "TERM": "dumb"}


def openapi() -> str:
    """As `/openapi.json` has it."""
    described = shared_app(None, None, fleet=dict, writes=dict).openapi()
    described["info"].pop("version", None)
    return json.dumps(described, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def helps() -> str:
    """`--help` of every command, as a terminal of 120 columns shows it."""
    runner, parts = CliRunner(), []
    with mock.patch.dict(os.environ, _TERMINAL):
        for path in _paths(typer.main.get_command(app), ()):
            shown = runner.invoke(app, [*path, "--help"], prog_name="lockgate", env=dict(_TERMINAL))
            assert shown.exit_code == 0, (path, shown.output)
            lines = "\n".join(line.rstrip() for line in shown.stdout.strip("\n").splitlines())
            parts.append(f"$ {' '.join(('lockgate', *path))} --help\n{lines}\n")
    return "\n".join(parts)


def _paths(command: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for name, inner in getattr(command, "commands", {}).items():  # of a group
        yield from _paths(inner, (*path, name))


FILES: Final[Mapping[str, Callable[[], str]]] = {"openapi.json": openapi, "help.txt": helps}


def main() -> None:
    """Write them all."""
    from tests.support.pages import reference_pages  # it reads these files

    for folder, files in ((FOLDER, FILES), *reference_pages.FOLDERS.items()):
        folder.mkdir(exist_ok=True)
        for name, made in files.items():
            (folder / name).write_text(made(), encoding="utf-8")
            sys.stdout.write(f"{folder / name}\n")


if __name__ == "__main__":
    main()
