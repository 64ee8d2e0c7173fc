"""By which name of its TLS handshake (SNI) a client asks for which broker, at one port. Pure.

A name is matched by the pattern, never looked up in a list: so a broker that joins has its name at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

NODE: Final = "$(nodeId)"
_HOST: Final = re.compile(r"(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_ADDRESS: Final = re.compile(r"[0-9.]+")


class UnknownNameError(ValueError):
    """Neither bootstrap's nor a broker's."""


@dataclass(frozen=True, slots=True)
class ServerNames:
    """Args.

    bootstrap: the host that clients bootstrap by.
    pattern: of brokers' hosts, with `$(nodeId)` once, in its first label.

    Raises ValueError for what can be no host's name.
    """

    bootstrap: str
    pattern: str

    def __post_init__(self) -> None:
        label, _, domain = self.pattern.partition(".")
        if self.pattern.count(NODE) != 1 or NODE not in label:
            raise ValueError(f"advertised_host_pattern: {self.pattern!r} needs {NODE} once, before its first dot")
        if not domain or not _HOST.fullmatch(self.host_of(2**31 - 1).lower()):
            raise ValueError(f"advertised_host_pattern: {self.pattern!r} is no host's name with a domain")
        if not _HOST.fullmatch(self.bootstrap.lower()) or _ADDRESS.fullmatch(self.bootstrap):
            raise ValueError(
                f"advertised_host: {self.bootstrap!r} is no host's name: clients that bootstrap by SNI need one"
            )
        if self._node_of(self.bootstrap.lower()) is not None:
            raise ValueError(f"advertised_host: {self.bootstrap!r} is a broker's name by advertised_host_pattern, too")

    def host_of(self, node_id: int) -> str:
        """What clients are told."""
        return self.pattern.replace(NODE, str(node_id))

    def node_of(self, name: str) -> int | None:
        """The broker that is asked for; None: bootstrap. Raises UnknownNameError."""
        asked = name.lower().removesuffix(".")
        if asked == self.bootstrap.lower():
            return None
        node = self._node_of(asked)
        if node is None:
            raise UnknownNameError(name)
        return node

    def _node_of(self, asked: str) -> int | None:
        before, _, behind = self.pattern.lower().partition(NODE.lower())
        if not (asked.startswith(before) and asked.endswith(behind)):
            return None
        number = asked[len(before) : len(asked) - len(behind)]
        if not _NUMBER.fullmatch(number) or int(number) > 2**31 - 1:
            return None
        return int(number)


def covers(certified: str, host: str) -> bool:
    """Whether a name in a certificate, perhaps with `*` for its first label, is good for a host (RFC 6125)."""
    certified, host = certified.lower(), host.lower()
    if certified.startswith("*."):
        return "." in host and host.partition(".")[2] == certified[2:]
    return certified == host
