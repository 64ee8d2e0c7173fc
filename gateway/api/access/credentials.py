"""What proves who asks: bearer tokens, and names in client certificates that the TLS listener has verified.

Tokens are kept and compared as SHA-256, so that neither the time of a comparison nor a look into memory by name tells
one. There are no passwords, no cookies, and so nothing that a web page's own requests would carry by themselves.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.api.access.roles import NOBODY, Caller, Role

_BEARER: Final = b"bearer "

# RFC 4514, section 3, as Java writes a principal: the short names that it has, an OID in text for the others.
_SHORT: Final = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}


class BadCredentials(Exception):
    """A proof that proves nothing. One line without the proof."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection. `certificate`: its verified subject, as `subject_of` writes it; '' without one.

    `owner`: the connection came over the Unix socket, which only its owner can open; else ''.
    """

    address: str = ""
    certificate: str = ""
    owner: str = ""


class Credentials:
    """Args.

    tokens: (name, role, token).
    certificates: (name, role, subject).
    """

    def __init__(
        self,
        tokens: Iterable[tuple[str, Role, str]] = (),
        certificates: Iterable[tuple[str, Role, str]] = (),
    ) -> None:
        self._tokens = [(_digest(token.encode("ascii")), name, role) for name, role, token in tokens]
        self._certificates = {_spaced(subject): (name, role) for name, role, subject in certificates}

    def who(self, authorization: bytes, peer: Peer) -> Caller:
        """Who asks, `NOBODY` without any proof. A token counts before a certificate, a certificate before the socket.

        Args:
            authorization: the header's value, b"" when there is none.

        Raises:
            BadCredentials: a token or a certificate that is nobody's.
        """
        if authorization:
            return self._by_token(authorization, peer)
        if peer.certificate:
            found = self._certificates.get(_spaced(peer.certificate))
            if found is None:
                raise BadCredentials(f"no principal has the certificate {peer.certificate}: see api.principals")
            return Caller(found[0], found[1], "certificate", peer.address)
        if peer.owner:
            return Caller(peer.owner, Role.ADMIN, "socket", peer.address)
        return Caller(NOBODY.name, NOBODY.role, NOBODY.proof, peer.address)

    def _by_token(self, authorization: bytes, peer: Peer) -> Caller:
        if not authorization[: len(_BEARER)].lower() == _BEARER:
            raise BadCredentials("only bearer tokens are taken: Authorization: Bearer TOKEN")
        said = _digest(authorization[len(_BEARER) :].strip())
        known: tuple[str, Role] | None = None
        for digest, name, role in self._tokens:  # all of them, always
            if hmac.compare_digest(digest, said):
                known = name, role
        if known is None:
            raise BadCredentials("the bearer token is not known here")
        return Caller(known[0], known[1], "token", peer.address)


def subject_of(certificate: Mapping[str, Any]) -> str:
    """The subject of what `SSLSocket.getpeercert` gives, as RFC 4514 writes it: the most specific part first."""
    return ",".join(
        "+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in relative)
        for relative in reversed(certificate.get("subject", ()))
    )


def _escaped(value: str) -> str:
    escaped = "".join("\\" + each if each in '",+;<>\\' else each for each in value)
    if escaped.startswith(("#", " ")):
        escaped = "\\" + escaped
    return escaped[:-1] + "\\ " if escaped.endswith(" ") and value != " " else escaped


def _spaced(subject: str) -> str:
    """Without the blanks that people write after a comma."""
    return ",".join(part.strip() for part in subject.split(","))


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
