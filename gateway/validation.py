"""What pydantic says is wrong with a file, in lines for people."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_core import ErrorDetails


def one_line(error: ValidationError) -> str:
    """The first error, with its key and value, and how many more there are."""
    found, more = problems_of(error, 1)
    return f"{found[0][1]} (and {more} more)" if more else found[0][1]


def problems_of(error: ValidationError, most: int) -> tuple[list[tuple[tuple[str | int, ...], str]], int]:
    """The first errors, `most` of them at most, each as the path of its key and one line with the key and the value;
    and how many more there are."""
    errors = error.errors(include_url=False, include_context=False)
    return [(one["loc"], _words(one)) for one in errors[:most]], max(0, len(errors) - most)


def _words(one: ErrorDetails) -> str:
    where = ".".join(str(part) for part in one["loc"])
    text = {"extra_forbidden": "unknown key", "missing": "is required"}.get(one["type"], one["msg"])
    text = " ".join(text.removeprefix("Value error, ").split())
    shown = one.get("input")
    if one["type"] not in ("extra_forbidden", "missing", "value_error") and isinstance(shown, str | int | float):
        text = f"{text} (it is {shown!r})"
    return f"{where}: {text}" if where else text
