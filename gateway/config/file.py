"""Reads the settings: one YAML file, checked whole before anything starts.

`${VAR}` in any value is replaced from the environment (`$${` stands for a literal `${`); an unset variable is an error,
never an empty string. Nothing else is taken from the environment. All that is wrong is told at once, with lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gateway.config.settings import Settings
from gateway.validation import Where, problems_of
from gateway.yaml_lines import line_of

_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}")


class ConfigError(ValueError):
    """The file cannot be used. `problems`: all of them, a line each, as `FILE:LINE: key: what is wrong`. Its text is
    the first, and how many more there are."""

    def __init__(self, problems: Sequence[str]) -> None:
        """`problems`: one at least."""
        more = len(problems) - 1
        super().__init__(f"{problems[0]} (and {more} more)" if more else problems[0])
        self.problems = tuple(problems)


def load(path: Path) -> Settings:
    """Read, interpolate and validate the settings file.

    Raises:
        ConfigError: all that is wrong with it.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document, root = yaml.safe_load(text), yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as exc:
        raise ConfigError([f"{path}: {exc.strerror}"]) from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise ConfigError([f"{path}: not YAML: {' '.join(str(exc).split())}"]) from exc
    if not isinstance(document, dict):
        raise ConfigError([f"{path}: the file must hold a mapping with at least `target`"])
    unset: list[tuple[Where, str]] = []
    values = _interpolated({str(key): value for key, value in document.items()}, (), os.environ, unset)
    if unset:
        raise _error(path, root, [(where, f"{_key(where)}: {words}") for where, words in unset])
    try:
        return Settings(**values)
    except ValidationError as exc:
        raise _error(path, root, _problems(exc)) from exc


def _error(path: Path, root: Any, problems: Iterable[tuple[Where, str]]) -> ConfigError:
    """In the order of the file."""
    lines = sorted(((line_of(root, where) or 0, words) for where, words in problems), key=lambda one: one[0])
    return ConfigError([f"{path}:{line}: {words}" if line else f"{path}: {words}" for line, words in lines])


def _interpolated(value: Any, where: Where, environment: Mapping[str, str], unset: list[tuple[Where, str]]) -> Any:
    if isinstance(value, dict):
        return {key: _interpolated(each, (*where, key), environment, unset) for key, each in value.items()}
    if isinstance(value, list):
        return [_interpolated(each, (*where, index), environment, unset) for index, each in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "${"
        if name not in environment:
            unset.append((where, f"${{{name}}} is not set in the environment"))
        return environment.get(name, "")

    return _VARIABLE.sub(replacement, value)


def _key(where: Where) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")


def _problems(error: ValidationError) -> list[tuple[Where, str]]:
    """Of the target's properties, whose messages begin with the property's name, by that name."""
    found, _ = problems_of(error, model=Settings)
    return [_of_target(words) if where == ("target",) else (where, words) for where, words in found]


def _of_target(words: str) -> tuple[Where, str]:
    name, colon, rest = words.removeprefix("target: ").partition(": ")
    return (("target", name), f"target.{name}: {rest}") if colon and " " not in name else (("target",), words)
