"""What is wrong with a file or a request, in lines for people: none of a library's words, every problem, and which key
somebody may have meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from gateway.close_names import did_you_mean

Where = tuple[str | int, ...]

_MANY: Final = 1_000
_WORDS: Final[Mapping[str, str]] = {
    "missing": "is required",
    "extra_forbidden": "unknown key",
    "string_type": "must be text, in quotes",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be {le} or less",
    "less_than": "must be less than {lt}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "too_short": "needs {min_length} or more, has {actual_length}",
    "too_long": "may have {max_length} at most, has {actual_length}",
    "string_too_short": "must have {min_length} characters or more",
    "string_too_long": "may have {max_length} characters at most",
    "string_pattern_mismatch": "must look like {pattern}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must hold keys with values",
    "mapping_type": "must hold keys with values",
    "model_type": "must hold keys with values",
    "model_attributes_type": "must hold keys with values",
    "json_invalid": "is not JSON: {error}",
}
"""By pydantic's types of errors; what is in braces is of its context."""
_LIBRARY: Final = (
    (re.compile(r"^(Value|Assertion) (error|failed), "), ""),
    (re.compile(r"^Input should "), "must "),
    (re.compile(r"^Input "), "it "),
    (re.compile(r" after validation"), ""),
)
_KINDS: Final = re.compile(r"int|str|float|bool|constrained-\w+|(list|dict|tuple|literal|function-\w+|is-instance)\[.*")
_SHOWN_KINDS: Final = (str, int, float)
_SECRET: Final = ("password", "secret", "token", "jaas", "credential")
_NO_VALUE: Final = ("extra_forbidden", "missing", "value_error", "json_invalid")


def one_line(error: ValidationError) -> str:
    """The first error, with its key and value, and how many more there are."""
    found, more = problems_of(error, 1)
    return f"{found[0][1]} (and {more} more)" if more else found[0][1]


def problems_of(
    error: ValidationError, most: int = _MANY, model: type[BaseModel] | None = None
) -> tuple[list[tuple[Where, str]], int]:
    """The first errors, `most` of them at most, each as the path of its key and one line with the key and the value;
    and how many more there are. `model`: of what is read; an unknown key is told with the one that is near it."""
    grouped = _grouped(error.errors(include_url=False))
    return [_problem(one, model) for one in grouped[:most]], max(0, len(grouped) - most)


def problems_in(errors: Sequence[Any]) -> list[tuple[Where, str]]:
    """Of pydantic's list of errors."""
    return [_problem(one, None) for one in _grouped(errors)]


def _grouped(errors: Sequence[Any]) -> list[tuple[Where, list[Any]]]:
    """By key. Where a value may be of several kinds and is of none, that is one problem; where it is nearly of one,
    what is wrong within counts alone."""
    grouped: dict[Where, list[Any]] = {}
    within: set[Where] = set()
    for one in errors:
        where = tuple(part for part in one["loc"] if not _is_kind(part))
        grouped.setdefault(where, []).append(one)
        kinds = [at for at, part in enumerate(one["loc"][:-1]) if _is_kind(part)]
        within |= {tuple(one["loc"][:at]) for at in kinds}
    return [(where, found) for where, found in grouped.items() if where not in within]


def _is_kind(part: str | int) -> bool:
    """Whether it is no key, but pydantic's name of one of the kinds that a value may have."""
    return isinstance(part, str) and _KINDS.fullmatch(part) is not None


def _problem(grouped: tuple[Where, list[Any]], model: type[BaseModel] | None) -> tuple[Where, str]:
    where, errors = grouped
    return where, _line(where, [_words(one, model) for one in errors], errors[0])


def _line(where: Where, words: Iterable[str], first: Any) -> str:
    text, shown = ", or ".join(dict.fromkeys(words)), first.get("input")
    if first["type"] not in _NO_VALUE and isinstance(shown, _SHOWN_KINDS) and not _may_be_secret(where):
        text = f"{text} (it is {shown!r})"
    return f"{'.'.join(map(str, where))}: {text}" if where else text


def _may_be_secret(where: Where) -> bool:
    return any(word in str(part).lower() for part in where for word in _SECRET)


def _words(one: Any, model: type[BaseModel] | None) -> str:
    kind, context = one["type"], one.get("ctx") or {}
    if kind == "extra_forbidden" and model is not None:
        return _WORDS[kind] + did_you_mean(str(one["loc"][-1]), keys_at(model, one["loc"][:-1]))
    if kind in _WORDS:
        return _WORDS[kind].format_map({name: _number(value) for name, value in context.items()})
    text = str(one["msg"])
    for pattern, instead in _LIBRARY:
        text = pattern.sub(instead, text)
    return " ".join(text.split())


def _number(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) else value


def keys_at(model: Any, where: Iterable[str | int]) -> list[str]:
    """The keys that a model has there."""
    kinds = [model]
    for part in where:
        kinds = [inner for kind in kinds for inner in _inside(kind, part)]
    return [field.alias or name for kind in _models(kinds) for name, field in kind.model_fields.items()]


def _inside(kind: Any, part: str | int) -> list[Any]:
    found: list[Any] = []
    for one in _alternatives(kind):
        if isinstance(one, type) and issubclass(one, BaseModel):
            found += [field.annotation for name, field in one.model_fields.items() if part in (name, field.alias)]
        elif get_origin(one) in (dict, Mapping):
            found.append(get_args(one)[1])
        elif get_origin(one) in (list, tuple):
            found.append(get_args(one)[0])
    return found


def _models(kinds: Iterable[Any]) -> list[type[BaseModel]]:
    each = [one for kind in kinds for one in _alternatives(kind)]
    return [one for one in each if isinstance(one, type) and issubclass(one, BaseModel)]


def _alternatives(kind: Any) -> list[Any]:
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [inner for one in get_args(kind) for inner in _alternatives(one)]
    return [kind]
