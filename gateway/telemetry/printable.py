"""Text for a terminal: what clients chose, such as a group's name, moves no cursor and changes no colour."""

from __future__ import annotations


def printable(text: str) -> str:
    """With escapes (`\\x1b`, `\\u202e`, `\\n`) for every character that is not shown as itself."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)
