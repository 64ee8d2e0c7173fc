"""What a link's client properties may make this gateway do: which files it reads, whom it believes, whom it asks.

Whoever may create links names files by path, says how brokers are to be checked, and where they are. Without a rule
that is a way to ask for any file of this machine (the errors tell whether it is there and what is in it), to send a
password to whoever stands on the way, or to have one that was meant for another link sent to a broker of one's own.
So files are in one folder, and what is secret in a folder of the link's own there; checks stay on, and a login that
can be read on the wire goes to this machine alone, unless the gateway's own settings say otherwise.

The policy is asked when a link is created or changed, and again at each use: whoever can write the state topic has not
been asked before.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from gateway.kafka.connection.config import OAUTHBEARER
from gateway.kafka.connection.properties import PROPERTIES, parse_endpoints
from gateway.state.schemas.registry_properties import PUBLIC_FILES, REGISTRY_FILES, URLS, sends_secrets_in_the_clear
from gateway.transport.sockets import is_loopback

LINK: Final = "{LINK}"
"""In `variables`: the link's name in capitals, with `_` for what is neither a letter nor a digit."""

_FILES: Final = ("tls_ca", "tls_certificate", "tls_key", "oauth_ca")
_PUBLIC: Final = ("tls_ca", "oauth_ca")
_CHECKS: Final = ("tls_verify_hostname", "tls_verify_certificate")
_READABLE_LOGINS: Final = ("PLAIN", OAUTHBEARER)
_PORTS: Final = {"http": 80, "https": 443}
_ALLOWED_BY: Final = "links.allow_unverified_tls in the gateway's settings would allow it"


def login_is_readable(protocol: str, mechanism: str, host: str) -> bool:
    """Whether others could read a login's password or token on its way to a host. Both names are in capitals."""
    return protocol == "SASL_PLAINTEXT" and mechanism in _READABLE_LOGINS and not is_loopback(host)


@dataclass(frozen=True, slots=True)
class LinkPolicy:
    """`files`: the folder that ssl.*.location and the files of secrets are in; '': none may be named. What is secret
    is in its folder LINK, which no other link may name.

    `allow_unverified_tls`: links may switch the check of certificates or host names off, and log in without TLS.
    `variables`: names of the environment variables that secrets may be in, with `*` for any characters; with `{LINK}`
    they are that link's, and `*` stands for letters and digits alone, so that no link's name is the beginning of
    another's variables.
    `hosts`: whom links may ask, HOST or HOST:PORT, with `*` for any characters; none: anybody.
    `own`: files of the gateway itself, which no link gets, whatever they are called.
    """

    files: str = ""
    allow_unverified_tls: bool = False
    variables: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    own: tuple[str, ...] = ()

    def require(self, link: str, client: Mapping[str, str]) -> None:
        """Looks at nothing outside the folder.

        Raises:
            ValueError: one line that names the property, and the option that would allow it.
        """
        for name, value in client.items():
            self._require_property(link, name, str(value))
        self._require_bootstrap(client)
        shown = "" if self.allow_unverified_tls else sends_secrets_in_the_clear(client)
        if shown:
            raise ValueError(
                f"{shown}: would be sent over http://, where others read it: give an https:// URL; {_ALLOWED_BY}"
            )

    def _require_property(self, link: str, name: str, value: str) -> None:
        field = PROPERTIES[name].field if name in PROPERTIES else ""
        file = value if name in REGISTRY_FILES else _file(field, value)
        try:
            if file is not None:
                self.require_file(file, "" if field in _PUBLIC or name in PUBLIC_FILES else link)
            elif field == "oauth_url" or name in URLS:
                self._require_url(value)
        except ValueError as exc:
            raise ValueError(f"{name}: {exc}") from None
        if field in _CHECKS and not self.allow_unverified_tls and not _is_checked(name, value):
            raise ValueError(f"{name}: a link must check its brokers' certificates and host names; {_ALLOWED_BY}")

    def _require_bootstrap(self, client: Mapping[str, str]) -> None:
        try:
            brokers = parse_endpoints(str(client["bootstrap.servers"]))
        except (KeyError, ValueError):
            return  # of a registry; or what cannot be read is refused later
        protocol = str(client.get("security.protocol", "")).upper()
        mechanism = str(client.get("sasl.mechanism", client.get("sasl.mechanisms", ""))).upper()
        for host, port in brokers:
            self.require_broker(protocol, mechanism, host, port)

    def require_broker(self, protocol: str, mechanism: str, host: str, port: int) -> None:
        """Raises ValueError for a broker that a link may not connect to, or not in this way."""
        if login_is_readable(protocol, mechanism, host) and not self.allow_unverified_tls:
            raise ValueError(
                f"security.protocol: {mechanism} would be sent to {host} without TLS, where others read it: "
                f"SASL_SSL protects it; {_ALLOWED_BY}"
            )
        self._require_host(host, port)

    def require_file(self, path: str, link: str = "") -> None:
        """Raises ValueError for a file that links may not name; looks at nothing outside the folder.

        Args:
            link: whose secret it is; '': it is none.
        """
        if not self.files:
            raise ValueError("links may not name files; links.files in the gateway's settings is the folder for them")
        folder = os.path.abspath(self.files)  # noqa: PTH100 - without a look at the file system
        named = os.path.abspath(path)  # noqa: PTH100
        if not (_is_in(named, folder) and _is_in(os.path.realpath(path), os.path.realpath(folder))):
            raise ValueError(f"{path} is not in the folder of links' files (links.files)")
        if link and not _is_in(named, f"{folder}/{link}"):
            raise ValueError(f"{path} is not in {folder}/{link}, the folder of this link's secrets in links.files")
        if any(_is_same(path, own) for own in self.own):
            raise ValueError(f"{path} is the gateway's own; no link may name it")

    def require_variable(self, name: str, link: str) -> None:
        """Raises ValueError for an environment variable that a link may not name, whether it is set or not."""
        allowed = [pattern.replace(LINK, _in_capitals(link)) for pattern in self.variables]
        patterns = [
            _pattern(each, "[A-Za-z0-9]*" if LINK in pattern else ".*")
            for each, pattern in zip(allowed, self.variables, strict=True)
        ]
        if not any(pattern.fullmatch(name) for pattern in patterns):
            raise ValueError(
                f"link '{link}' may not name the variable {name}; links.variables allows {', '.join(allowed) or 'none'}"
            )

    def _require_url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError:
            return  # what cannot be read is refused later, with its own reason
        self._require_host(host, port)

    def _require_host(self, host: str, port: int) -> None:
        if self.hosts and not any(_names(pattern, host, port) for pattern in self.hosts):
            raise ValueError(f"{host}:{port} is none of those whom links may ask (links.hosts)")


DEFAULT_POLICY: Final = LinkPolicy()


def _names(pattern: str, host: str, port: int) -> bool:
    shown = f"[{host}]" if ":" in host else host
    wanted = _pattern(pattern.lower(), ".*")
    return any(wanted.fullmatch(text.lower()) for text in (host, shown, f"{shown}:{port}"))


def _pattern(text: str, stars: str) -> re.Pattern[str]:
    return re.compile(stars.join(map(re.escape, text.split("*"))))


def _in_capitals(link: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in link).upper()


def _is_in(path: str, folder: str) -> bool:
    return "\0" not in path and os.path.commonpath((path, folder)) == folder


def _is_same(path: str, own: str) -> bool:
    try:
        return os.path.samefile(path, own)  # noqa: PTH121
    except OSError:
        return False


def _file(field: str, value: str) -> str | None:
    """The file that a property names."""
    if field == "oauth_url":
        return unquote(urlsplit(value).path) if value.lower().startswith("file:") else None
    return value if field in _FILES else None


def _is_checked(name: str, value: str) -> bool:
    """What cannot be read is refused later, with its own reason."""
    try:
        return bool(PROPERTIES[name].parse(value))
    except ValueError:
        return True
