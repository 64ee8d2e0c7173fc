"""What is secret in settings and texts, and how it is taken out of them. Pure but for files that settings name.

Settings are told by their names: of a client property only those show that are known to be no secret, of everything
else what is not called a password, a secret or a token. Texts are searched for the secrets themselves: those that the
settings hold, that variables named by them hold, and that the gateway's own files hold (tokens, keys).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gateway.kafka.connection.properties import PROPERTIES, parse_jaas
from gateway.operations.secrets.rules.references import REDACTED, shown

_WORDS: Final = ("password", "secret", "token", "jaas", "credential")
_FILES: Final = ("token_file", "key_file")
"""Options whose values are paths: those show, and what is in the files does not."""
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_OF_LINKS: Final = "LOCKGATE_LINK_"
_SHORTEST: Final = 6
"""Of a secret that texts are searched for, in characters: "on" would take half of each text away."""
_LONGEST_FILE: Final = 65_536


def shown_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as they may be shown."""
    target = settings.get("target")
    rest = {name: _shown(name, value) for name, value in settings.items() if name != "target"}
    if not isinstance(target, Mapping):
        return rest
    known = {str(name): str(value) for name, value in target.items()}
    told = {name: value if name in PROPERTIES else REDACTED for name, value in shown(known).items()}
    return {"target": told, **rest}


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _shown(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shown(name, inner) for inner in value]
    return REDACTED if _is_secret(name) and isinstance(value, str) and value else value


def _is_secret(name: str) -> bool:
    return name not in _FILES and any(word in name.lower() for word in _WORDS)


def secrets_in(settings: Mapping[str, Any], environment: Mapping[str, str], *more: str) -> frozenset[str]:
    """All that this machine knows to be a secret of the gateway's."""
    found = {*more, *(value for name, value in environment.items() if name.startswith(_OF_LINKS))}
    target = settings.get("target")
    unknown = target.keys() - PROPERTIES.keys() if isinstance(target, Mapping) else frozenset()  # misspelt, perhaps
    for name, value in _leaves("", settings):
        if name in _FILES:
            found |= set(_lines(Path(value)))
        elif _is_secret(name) or name in unknown:
            found |= set(_values(name, value, environment))
    return frozenset(each for each in found if len(each) >= _SHORTEST)


def _values(name: str, value: str, environment: Mapping[str, str]) -> Iterator[str]:
    """A value as it is written, and as the gateway takes it."""
    whole = _VARIABLE.sub(lambda match: environment.get(match[1], ""), value)
    yield from (environment.get(variable, "") for variable in _VARIABLE.findall(value))
    if not _VARIABLE.search(value):
        yield value
    yield whole
    if "jaas" in name:
        try:
            yield parse_jaas(whole)[1]
        except ValueError:
            return


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """The text without them, longest first: one may be the beginning of another."""
    for each in sorted(secrets, key=len, reverse=True):
        text = text.replace(each, REDACTED)
    return text


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(str(key), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(name, inner)
    elif isinstance(value, str) and value:
        yield name, value


def _lines(path: Path) -> list[str]:
    """Of a file with a secret on each; none where this user may not read it: then no text of his has them either."""
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST_FILE).decode("utf-8", "replace").split()
    except OSError:
        return []
