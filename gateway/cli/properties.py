"""Client properties and link options on a command line, and in files: one key=value a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.api import USAGE, fail
from gateway.state.schemas.registry_properties import REGISTRY_SECRETS

Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config", metavar="KEY=VALUE", help="A client property or a link option, or a file of them; may be repeated."
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config-file", metavar="FILE", help="Client properties and link options, one key=value a line."),
]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="The same as --config.")]

SettingFiles = Annotated[
    list[str] | None,
    typer.Option("--set-file", metavar="KEY=FILE", help="A link option whose value is all that a file holds."),
]


def configs_given(
    configs: list[str] | None, file: Path | None, settings: list[str] | None, setting_files: list[str] | None = None
) -> dict[str, str]:
    """What the options say together: what stands on the command line counts more than what is in a file of several.

    `setting_files`: KEY=FILE, of those whose value is a file of its own.

    A secret on the command line, or what is no KEY=VALUE, ends the command with 2.
    """
    texts = configs or []
    files = [Path(text) for text in texts if "=" not in text]  # `--config FILE` is older than `--config-file`
    found: dict[str, str] = {}
    for path in (*files, *([file] if file else [])):
        found.update(read_properties(path))
    given = [("--config", text) for text in texts if "=" in text] + [("--set", text) for text in settings or []]
    for option, text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            fail(f"{option} {text}: expected KEY=VALUE", USAGE)
        if _is_secret(key.strip()) and not value.strip().startswith("${"):
            fail(
                f"{option} {key.strip()}: others see a secret on a command line; give a reference to it, such as "
                "${env:NAME}, or put it into a file, --config-file FILE",
                USAGE,
            )
        found[key.strip()] = value.strip()
    return {**found, **dict(map(_whole_file, setting_files or ()))}


def _is_secret(key: str) -> bool:
    return key in REGISTRY_SECRETS or any(word in key for word in ("password", "secret", "jaas"))


def _whole_file(text: str) -> tuple[str, str]:
    key, equals, path = text.partition("=")
    if not equals or not key.strip() or not path:
        fail(f"--set-file {text}: expected KEY=FILE", USAGE)
    try:
        return key.strip(), Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        fail(f"--set-file {key}: {path}: {exc}", USAGE)


def read_properties(path: Path) -> dict[str, str]:
    """The properties of a file. One that cannot be read, or a line that is none, ends the command with 2."""
    return dict(_from_file(path))


def client_properties(text: str) -> dict[str, str]:
    """What an option says: an address, a file, or nothing; ends the command with 2 when it is neither."""
    path = Path(text)
    if text and path.is_file():
        return read_properties(path)
    if not all(":" in part for part in text.split(",") if text):
        fail(f"{text}: neither host:port nor a file of client properties", USAGE)
    return {"bootstrap.servers": text} if text else {}


def _from_file(path: Path) -> Iterator[tuple[str, str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        fail(f"{path}: {exc}", USAGE)
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(("#", "!")):
            continue
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            fail(f"{path}:{number}: expected key=value", USAGE)
        yield key.strip(), value.strip()
