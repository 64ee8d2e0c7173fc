"""Subjects of certificates as Java's X500Principal writes them; what stands here was printed by Java 17."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from gateway.transport.certificates import subject_of

Parts = list[list[tuple[x509.ObjectIdentifier, str]]]


def certificate(parts: Parts) -> bytes:
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.RelativeDistinguishedName([x509.NameAttribute(*each) for each in part]) for part in parts])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2040, 1, 1, tzinfo=dt.UTC))
        .sign(key, None)
    )
    return made.public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("parts", "written"),
    [
        (
            [
                [(NameOID.COUNTRY_NAME, "US")],
                [(NameOID.ORGANIZATION_NAME, "Org, Inc.")],
                [(NameOID.COMMON_NAME, 'a+b<c>;"q"\\=x')],
            ],
            r"CN=a\+b\<c\>\;\"q\"\\\=x,O=Org\, Inc.,C=US",
        ),
        ([[(NameOID.COMMON_NAME, " # lead and trail  ")]], r"CN=\ \# lead and trail\ \ "),
        ([[(NameOID.COMMON_NAME, "  ")]], r"CN=\ \ "),
        (
            [
                [(NameOID.COMMON_NAME, "#hash")],
                [(NameOID.ORGANIZATIONAL_UNIT_NAME, "x"), (NameOID.COMMON_NAME, "y")],
            ],
            r"CN=y+OU=x,CN=\#hash",
        ),
        (
            [
                [(NameOID.EMAIL_ADDRESS, "a@b.c")],
                [(NameOID.COMMON_NAME, "Zoë é")],
                [(NameOID.SERIAL_NUMBER, "12")],
                [(NameOID.USER_ID, "uid")],
                [(NameOID.DOMAIN_COMPONENT, "com")],
                [(NameOID.STREET_ADDRESS, "s 1")],
                [(NameOID.STATE_OR_PROVINCE_NAME, "MD")],
                [(NameOID.LOCALITY_NAME, "L")],
            ],
            "L=L,ST=MD,STREET=s 1,DC=com,UID=uid,2.5.4.5=#13023132,CN=Zoë é,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        ([[(NameOID.PSEUDONYM, "p" * 60)]], "2.5.4.65=#0c3c" + "70" * 60),
        ([[(NameOID.PSEUDONYM, "é" * 100)]], "2.5.4.65=#0c81c8" + "c3a9" * 100),
    ],
)
def test_subject(parts: Parts, written: str) -> None:
    assert subject_of(certificate(parts)) == written


def test_what_is_no_certificate() -> None:
    with pytest.raises(ValueError, match=r"."):
        subject_of(b"none")
