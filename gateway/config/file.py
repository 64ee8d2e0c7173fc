"""Reads the settings: one YAML file, checked whole before anything starts.

`${VAR}` in any value is replaced from the environment (`$${` stands for a literal `${`); an unset variable is an error,
never an empty string. Nothing else is taken from the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gateway.config.settings import Settings
from gateway.validation import one_line

_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}")


class ConfigError(ValueError):
    """The file cannot be used. One line: `FILE: key: what is wrong`."""


def load(path: Path) -> Settings:
    """Read, interpolate and validate the settings file.

    Raises:
        ConfigError: one line with the file, the key and what is wrong with it.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(exc).split())}") from exc
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: the file must hold a mapping with at least `target`")
    try:
        return Settings(**_interpolated({str(key): value for key, value in document.items()}, "", os.environ))
    except ValidationError as exc:
        raise ConfigError(f"{path}: {_one_line(exc)}") from exc
    except ValueError as exc:
        raise ConfigError(f"{path}: {exc}") from exc


def _interpolated(value: Any, where: str, environment: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _interpolated(each, f"{where}.{key}".lstrip("."), environment) for key, each in value.items()}
    if isinstance(value, list):
        return [_interpolated(each, f"{where}[{index}]", environment) for index, each in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "${"
        if name not in environment:
            raise ValueError(f"{where}: ${{{name}}} is not set in the environment")
        return environment[name]

    return _VARIABLE.sub(replacement, value)


def _one_line(error: ValidationError) -> str:
    """As `one_line`; of the target's properties, whose messages begin with the property's name, by that name."""
    first = error.errors(include_url=False, include_context=False)[0]
    if first["loc"] == ("target",) and first["type"] == "value_error":
        return f"target.{first['msg'].removeprefix('Value error, ')}"
    return one_line(error)
