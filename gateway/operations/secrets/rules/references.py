"""References to secrets in the properties of a link, in the syntax of Kafka's ConfigProvider (KIP-297).

``${file:/path:key}`` is a key of a properties file, ``${dir:/path:name}`` (or ``directory``) the contents of a file in
a folder, ``${env:NAME}`` an environment variable, each of the gateway that uses it. ``${encrypted:KEY:TEXT}`` is what
the gateway itself makes of a secret that was given as it is (`operations/secrets/sealing.py`).

Unlike Kafka a property is one reference or none, and only what tells the cluster who we are may be one: of anything
else the value would be seen in logs and errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gateway.state.schemas.registry_properties import REGISTRY_REFERABLE, REGISTRY_SECRETS

_OF_CLUSTERS: Final = ("sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret")
SECRETS: Final = (*_OF_CLUSTERS, *REGISTRY_SECRETS)
REFERABLE: Final = ("sasl.username", *_OF_CLUSTERS, *REGISTRY_REFERABLE)
ENCRYPTED: Final = "encrypted"
PROVIDERS: Final = ("file", "dir", "directory", "env")
REDACTED: Final = "********"

_HIDDEN: Final = ("password", "jaas", "secret")
_REFERENCE: Final = re.compile(rf"\$\{{({'|'.join((*PROVIDERS, ENCRYPTED))}):(?:([^}}:]*):)?([^}}]*)\}}")

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Reference(NamedTuple):
    """`path` is '' where the provider has none."""

    provider: str
    path: str
    key: str


def reference(text: str) -> Reference | None:
    """What a value refers to; None when it is no reference."""
    found = _REFERENCE.fullmatch(text)
    return None if found is None else Reference(found[1], found[2] or "", found[3])


ANY: Final = "*"
"""In the key of a template, instead of a name."""


def for_name(template: str, name: str) -> Reference:
    """Of a template, ``${dir:/path:*}`` and the like, the reference of one name: the key's `*` stands for it.

    Raises:
        ValueError: it is no template; or a name that would lead elsewhere. Names the template, never a secret.
    """
    found = reference(template)
    if found is None or found.provider == ENCRYPTED or found.key.count(ANY) != 1 or ANY in found.path:
        raise ValueError("expected ${file:/path:*}, ${dir:/path:*} or ${env:PREFIX_*}; * stands for the user's name")
    if (found.path == "") != (found.provider == "env"):
        raise ValueError(f"{template}: expected ${{file:/path:*}}, ${{dir:/path:*}} or ${{env:PREFIX_*}}")
    key = found.key.replace(ANY, name)
    if found.provider in ("dir", "directory") and (key in (".", "..") or any(char in key for char in "/\0")):
        raise ValueError(f"{name!r} cannot be the name of a file")
    if found.provider == "env" and not _VARIABLE.fullmatch(key):
        raise ValueError(f"{key!r} cannot be the name of a variable")
    return found._replace(key=key)


def is_plain(text: str) -> bool:
    """The value itself is the secret."""
    return bool(text) and reference(text) is None


def is_encrypted(text: str) -> bool:
    """A gateway has encrypted it."""
    found = reference(text)
    return found is not None and found.provider == ENCRYPTED


def require_well_formed(client: Mapping[str, str]) -> None:
    """Raises ValueError, one line that names the property, for a reference where none may be, or of no use."""
    for name, value in client.items():
        found = reference(value)
        if found is None:
            if _REFERENCE.search(value):
                raise ValueError(f"{name}: a reference must be the whole value")
        elif name not in REFERABLE:
            raise ValueError(f"{name}: only {', '.join(REFERABLE)} may be references")
        elif found.provider == ENCRYPTED:
            raise ValueError(f"{name}: what a gateway has encrypted cannot be given to another link")
        elif not found.key or (found.path == "") != (found.provider == "env"):
            raise ValueError(f"{name}: expected ${{file:/path:key}}, ${{dir:/path:name}} or ${{env:NAME}}")


def shown(client: Mapping[str, Any]) -> dict[str, Any]:
    """Client properties as they may be shown: references as they are, what is a secret itself or encrypted hidden."""
    return {name: REDACTED if _is_hidden(name, value) else value for name, value in client.items()}


def _is_hidden(name: str, value: Any) -> bool:
    if name not in SECRETS and not any(word in name for word in _HIDDEN):
        return False
    found = reference(value) if isinstance(value, str) else None
    return found is None or found.provider == ENCRYPTED or name not in REFERABLE
