"""What pydantic says is wrong with a file, in one line for people."""

from __future__ import annotations

from pydantic import ValidationError


def one_line(error: ValidationError) -> str:
    """The first error, with its key and value, and how many more there are."""
    errors = error.errors(include_url=False, include_context=False)
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"])
    text = {"extra_forbidden": "unknown key", "missing": "is required"}.get(first["type"], first["msg"])
    text = " ".join(text.removeprefix("Value error, ").split())
    shown = first.get("input")
    if first["type"] not in ("extra_forbidden", "missing", "value_error") and isinstance(shown, str | int | float):
        text = f"{text} (it is {shown!r})"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{where}: {text}{more}" if where else f"{text}{more}"
