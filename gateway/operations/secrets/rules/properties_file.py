"""Properties files as Java writes them (`java.util.Properties.load`): what `${file:PATH:KEY}` reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)
_PAIR: Final = re.compile(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)


def properties(text: str) -> dict[str, str]:
    """Key -> value; of a key that occurs twice the last counts."""
    return dict(_pair(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    """Without comments and blank lines; a line that ends in an odd number of backslashes goes on in the next."""
    begun = ""
    for line in re.split(r"\r\n|\r|\n", text):
        part = line.lstrip(" \t\f")
        if not begun and (not part or part[0] in "#!"):
            continue
        begun += part
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1] or " "
            continue
        yield begun.lstrip(" ")
        begun = ""
    if begun.strip():
        yield begun.lstrip(" ")


def _pair(line: str) -> tuple[str, str]:
    found = _PAIR.fullmatch(line)
    key, value = (found[1], found[2]) if found is not None else (line, "")
    return _unescaped(key), _unescaped(value)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2]), text)
