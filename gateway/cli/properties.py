"""Files of client properties: one key=value a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway.cli.api import USAGE, fail


def read_properties(path: Path) -> dict[str, str]:
    """The properties of a file. One that cannot be read, or a line that is none, ends the command with 2."""
    return dict(_from_file(path))


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
