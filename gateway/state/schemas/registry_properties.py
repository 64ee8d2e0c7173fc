"""How to reach the schema registries of a link: client properties, checked and turned into values. Pure.

A link may name two registries, `schema.source.registry.*` and `schema.target.registry.*`. The names behind that are
those of Confluent's serializers, without their `schema.registry.`: `url`, `basic.auth.*` (its `user.info` in two
halves), `bearer.auth.token`, `ssl.*` as librdkafka writes them (PEM files). Secrets are kept as the link's other ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from gateway.kafka.connection.config import TlsConfig

MAX_URL: Final = 2_048
CA: Final = "ssl.ca.location"
CERTIFICATE: Final = "ssl.certificate.location"
KEY: Final = "ssl.key.location"
USERNAME: Final = "basic.auth.username"
PASSWORD: Final = "basic.auth.password"  # noqa: S105 - a name
TOKEN: Final = "bearer.auth.token"  # noqa: S105 - a name
KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 - a name
URL: Final = "url"

_SECRETS: Final = (PASSWORD, TOKEN, KEY_PASSWORD)
_FILES: Final = (CA, CERTIFICATE, KEY)
_NAMES: Final = (URL, USERNAME, *_FILES, *_SECRETS)

Resolve = Callable[[str, str], str]
"""(property, its value) -> the secret, where values are references to secrets; raises ValueError."""


class RegistrySide(StrEnum):
    """Which registry: the one that the source's clients use, or the one that they use after the promote."""

    SOURCE = "source"
    TARGET = "target"

    @property
    def prefix(self) -> str:
        """Of its properties."""
        return f"schema.{self.value}.registry."


REGISTRY_PROPERTIES: Final = frozenset(side.prefix + name for side in RegistrySide for name in _NAMES)
REGISTRY_SECRETS: Final = tuple(side.prefix + name for side in RegistrySide for name in _SECRETS)
REGISTRY_REFERABLE: Final = (*(side.prefix + USERNAME for side in RegistrySide), *REGISTRY_SECRETS)
REGISTRY_FILES: Final = frozenset(side.prefix + name for side in RegistrySide for name in _FILES)
PUBLIC_FILES: Final = frozenset(side.prefix + CA for side in RegistrySide)
URLS: Final = frozenset(side.prefix + URL for side in RegistrySide)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    """One registry. `url`: http or https, with the path before `/subjects`, without a slash at its end.

    `username`, `password`, `token` and `tls.key_password` may be references, see `resolved`.
    """

    url: str
    prefix: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    tls: TlsConfig = field(default_factory=TlsConfig)

    def resolved(self, resolve: Resolve) -> RegistryConfig:
        """With secrets in the place of references, as they are now.

        Raises:
            ValueError: one cannot be read, or is none; names the property.
        """
        username = resolve(self.prefix + USERNAME, self.username)
        if ":" in username:
            raise ValueError(f"{self.prefix}{USERNAME}: a colon cannot be in it (RFC 7617)")
        token = resolve(self.prefix + TOKEN, self.token)
        if any(not "!" <= character <= "~" for character in token):
            raise ValueError(f"{self.prefix}{TOKEN}: is not a token")
        key_password = resolve(self.prefix + KEY_PASSWORD, self.tls.key_password)
        password = resolve(self.prefix + PASSWORD, self.password)
        tls = replace(self.tls, key_password=key_password)
        return replace(self, username=username, password=password, token=token, tls=tls)


def registry_config(properties: Mapping[str, str], side: RegistrySide) -> RegistryConfig | None:
    """One registry of a link; None when the link names none.

    Raises:
        ValueError: one line that names an unknown property, a bad value, or one that is missing.
    """
    given = {name.removeprefix(side.prefix): text for name, text in of_side(properties, side).items()}
    for name in given:
        if name not in _NAMES:
            raise ValueError(f"{side.prefix}{name}: unknown property; known: {', '.join(sorted(_NAMES))}")
    if not given:
        return None
    if URL not in given:
        raise ValueError(f"{side.prefix}{URL}: missing, beside {side.prefix}{min(given)}")
    if bool(given.get(USERNAME)) != bool(given.get(PASSWORD)):
        raise ValueError(f"{side.prefix}{PASSWORD if given.get(USERNAME) else USERNAME}: missing")
    if given.get(USERNAME) and given.get(TOKEN):
        raise ValueError(f"{side.prefix}{TOKEN}: {side.prefix}{USERNAME} is given as well; one login is possible")
    if given.get(KEY) and not given.get(CERTIFICATE):
        raise ValueError(f"{side.prefix}{KEY}: {side.prefix}{CERTIFICATE} is missing")
    return RegistryConfig(
        url=_url(side.prefix + URL, given[URL]),
        prefix=side.prefix,
        username=given.get(USERNAME, ""),
        password=given.get(PASSWORD, ""),
        token=given.get(TOKEN, ""),
        tls=TlsConfig(
            ca=given.get(CA, ""),
            certificate=given.get(CERTIFICATE, ""),
            key=given.get(KEY, ""),
            key_password=given.get(KEY_PASSWORD, ""),
        ),
    )


def of_side(properties: Mapping[str, str], side: RegistrySide) -> dict[str, str]:
    """Those of one registry, under their whole names."""
    return {name: text for name, text in properties.items() if name.startswith(side.prefix)}


def sends_secrets_in_the_clear(properties: Mapping[str, str]) -> str:
    """The property of a secret that would go over plain HTTP; '' when there is none."""
    for side in RegistrySide:
        if properties.get(side.prefix + URL, "").lower().startswith("http:"):
            for name in (PASSWORD, TOKEN):
                if properties.get(side.prefix + name):
                    return side.prefix + name
    return ""


def _url(name: str, text: str) -> str:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    bad = port == 0 or len(text) > MAX_URL or any(not "!" <= character <= "~" for character in text)
    if not host or bad or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ValueError(f"{name}: expected http(s)://HOST:PORT/PATH")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{name}: a login does not belong into the URL; give {name.removesuffix(URL)}{USERNAME}")
    return text.rstrip("/")
