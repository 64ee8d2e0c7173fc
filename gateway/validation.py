"""What pydantic says is wrong with a file, in lines for people."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_core import ErrorDetails


def one_line(error: ValidationError) -> str:
    """The first error, with its key and value, and how many more there are."""
    found = problems_of(error)
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{found[0][1]}{more}"


def problems_of(error: ValidationError) -> list[tuple[tuple[str | int, ...], str]]:
    """Each error: the path of its key, and one line with the key and the value."""
    return [(one["loc"], _words(one)) for one in error.errors(include_url=False, include_context=False)]


def _words(one: ErrorDetails) -> str:
    where = ".".join(str(part) for part in one["loc"])
    text = {"extra_forbidden": "unknown key", "missing": "is required"}.get(one["type"], one["msg"])
    text = " ".join(text.removeprefix("Value error, ").split())
    shown = one.get("input")
    if one["type"] not in ("extra_forbidden", "missing", "value_error") and isinstance(shown, str | int | float):
        text = f"{text} (it is {shown!r})"
    return f"{where}: {text}" if where else text
