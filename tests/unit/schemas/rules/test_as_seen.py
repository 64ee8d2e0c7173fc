"""gateway/schemas/rules/as_seen.py"""

from __future__ import annotations

import pytest

from gateway.schemas.rules.as_seen import why_not_as_seen, why_not_imported
from gateway.schemas.rules.model import IMPORT


@pytest.mark.parametrize(
    ("mode", "there", "known", "words"),
    [
        (IMPORT, {1, 2}, {1, 2, 3}, ""),
        (IMPORT, {1, 2}, {1}, "version 2 came"),
        ("", {1}, {1}, "not its own"),
        ("READWRITE", set(), set(), "READWRITE"),
    ],
)
def test_only_what_was_seen_is_imported_into(mode: str, there: set[int], known: set[int], words: str) -> None:
    why = why_not_imported(mode, there, known)
    assert words in why
    assert bool(why) == bool(words)


def test_the_first_strange_version_is_named() -> None:
    assert why_not_as_seen({1, 5, 4}, {1}).startswith("version 4 ")
    assert not why_not_as_seen(set(), {1})
