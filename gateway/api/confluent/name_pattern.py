"""`mirror_topic_name_pattern`: a regular expression that whole names must match, of those that cost nothing.

An expression of a stranger's choice can keep a matcher busy for hours, and with it every client of the gateway. So of
the syntax only what such patterns are made of is taken: characters of topic names, `\\.`, `.`, `.*` and `.+`, and
`|` between patterns. Each piece between two `.*` is looked for once, from where the last one ended: the first
place is always good enough, as in a file name's `*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gateway.errors import BadRequest

_MOST: Final = 1_000  # characters
_TOKEN: Final = re.compile(r"(?P<any>\.\*)|(?P<some>\.\+)|(?P<one>\.)|\\(?P<dot>[.])|(?P<char>[A-Za-z0-9_-])")


class _Piece(NamedTuple):
    """An expression that takes so many characters, whatever they are."""

    expression: re.Pattern[str]
    size: int


class NamePattern:
    """Raises BadRequest for what is not taken."""

    def __init__(self, text: str) -> None:
        if not text or len(text) > _MOST:
            raise BadRequest(f"mirror_topic_name_pattern: not of 1 to {_MOST} characters")
        self._alternatives = [_pieces(each) for each in text.split("|")]

    def among(self, names: Iterable[str]) -> list[str]:
        """The names that match, in order."""
        return [name for name in names if any(_matches(pieces, name) for pieces in self._alternatives)]


def _pieces(text: str) -> Sequence[_Piece]:
    """What stands between the `.*`: expressions of a fixed length."""
    pieces: list[list[str]] = [[]]
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise BadRequest(
                f"mirror_topic_name_pattern: {text!r} is not made of characters of topic names, \\., ., .*, .+ and |; "
                "name the topics with mirror_topic_names"
            )
        if token["any"]:
            pieces.append([])
        elif token["some"]:
            pieces[-1].append(".")
            pieces.append([])
        else:
            pieces[-1].append("." if token["one"] else re.escape(token["dot"] or token["char"]))
        at = token.end()
    return [_Piece(re.compile("".join(piece)), len(piece)) for piece in pieces]


def _matches(pieces: Sequence[_Piece], name: str) -> bool:
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return first.expression.fullmatch(name) is not None
    begin, end = first.expression.match(name), len(name) - last.size
    if begin is None:
        return False
    at = begin.end()
    for piece in pieces[1:-1]:
        found = piece.expression.search(name, at)
        if found is None:
            return False
        at = found.end()
    return end >= at and last.expression.fullmatch(name, end) is not None
