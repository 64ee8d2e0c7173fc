"""Certificates of TLS peers: their subject, and whether their authority has revoked them.

The subject is written as Kafka's brokers write it: Java's `X500Principal.getName()`, RFC 2253.

Revoked certificates are in a CRL (RFC 5280) next to the CA, in PEM. OpenSSL looks a certificate up in its issuer's
list, and refuses it if there is no list, or only an expired one: so a list that is not renewed admits no peer, rather
than every peer.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID


def refuse_revoked(context: ssl.SSLContext, crl: Path) -> None:
    """Make a context refuse peers whose own certificate is in the list.

    Raises:
        OSError, ValueError: the file cannot be read, or is no CRL. (ssl.SSLError is an OSError.)
    """
    try:
        x509.load_pem_x509_crl(crl.read_bytes())
    except ValueError:
        raise ValueError("it is no list of revoked certificates (CRL) in PEM") from None
    context.load_verify_locations(crl)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def hosts_of(certificates: bytes) -> list[str]:
    """The hosts for which a server's PEM certificate is valid; ignores its chain. Raises ValueError if it is none."""
    try:
        own = x509.load_pem_x509_certificates(certificates)[0]
        return own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
            x509.DNSName
        )
    except x509.ExtensionNotFound:
        return []


_KEYWORDS: Final = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
"""The attributes with a keyword in RFC 2253; for others Java writes the number, and the value in hexadecimal."""


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER. Raises ValueError if it is none."""
    subject = x509.load_der_x509_certificate(certificate).subject
    return ",".join("+".join(map(_attribute, part)) for part in reversed(subject.rdns))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    keyword, value = _KEYWORDS.get(attribute.oid), attribute.value
    if keyword is not None and isinstance(value, str):
        return f"{keyword}={_escaped(value)}"
    raw = value.encode("utf-8") if isinstance(value, str) else value
    return f"{attribute.oid.dotted_string}=#{_der(attribute._type.value, raw).hex()}"


def _der(tag: int, raw: bytes) -> bytes:
    size = len(raw)
    if size < 128:
        return bytes((tag, size)) + raw
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + raw


def _escaped(value: str) -> str:
    text = "".join("\\" + each if each in ',=+<>#;"\\' else each for each in value)
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - before - len(inner)
    return "\\ " * before + inner + "\\ " * after
