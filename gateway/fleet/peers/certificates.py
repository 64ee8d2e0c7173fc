"""What gateways prove to one another with on TLS, both ways: certificates that were given, or of a CA of their own.

The CA of a fleet is not kept anywhere: its key is derived (HKDF) from the secret that the first leader makes and every
gateway reads from the state topic. Each makes itself a certificate under it when it starts, with a key that never
leaves its memory. So a fleet needs no set-up, whoever cannot read the state topic is not let in, and what went over the
wire before stays unreadable to whoever can read it later (TLS 1.3).

With given certificates, being able to read the state topic is not enough. One that the CA has given to something else
is not enough either: the proof in the greeting (`fleet/peers/wire.py`) names the certificates of both ends.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from gateway.transport.certificates import refuse_revoked
from gateway.transport.renewed import Renewed

# The clocks of gateways may differ, and none of these outlives its process: the secret ends it, not a date.
_FROM: Final = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_UNTIL: Final = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class PeerTls:
    """`accepts` and `dials`: contexts of both ends of a connection. `fingerprint`: of this gateway's certificate."""

    accepts: ssl.SSLContext
    dials: ssl.SSLContext
    fingerprint: str


Certificates = Callable[[], PeerTls | None]
"""What counts now; None while the fleet's secret is not known. Raises ValueError with one line."""


class FleetCertificates:
    """Of the fleet's own CA."""

    def __init__(self, name: str, secret: Callable[[], str]) -> None:
        self._name = name
        self._secret = secret
        self._made_of = ""
        self._made: PeerTls | None = None

    def __call__(self) -> PeerTls | None:
        """The certificate made from the shared secret, made again when the secret is another one."""
        secret = self._secret()
        if secret != self._made_of:
            self._made_of, self._made = secret, _of_secret(secret, self._name) if secret else None
        return self._made


class GivenCertificates:
    """PEM files, read anew when they change. The certificate has to be good for servers and for clients.

    Raises:
        ValueError: a file is of no use; names it.
    """

    def __init__(self, certificate: Path, key: Path, key_password: str, ca: Path, crl: Path | None = None) -> None:
        self._certificate = certificate
        self._key = key
        self._key_password = key_password
        self._ca = ca
        self._crl = crl
        self._made = Renewed("fleet.tls", self._make, (certificate, key, ca, *(() if crl is None else (crl,))))

    def __call__(self) -> PeerTls | None:
        """The certificate of the files, read again when they change."""
        return self._made.get()

    def _make(self) -> PeerTls:
        def load(context: ssl.SSLContext) -> None:
            context.load_cert_chain(self._certificate, self._key, lambda: self._key_password)
            context.load_verify_locations(self._ca)
            if self._crl is not None:
                refuse_revoked(context, self._crl)

        try:
            text = self._certificate.read_text(encoding="ascii")
            first = ssl.PEM_cert_to_DER_cert(text[text.index(_BEGIN) : text.index(_END) + len(_END)])
            return _contexts(load, first)
        except (OSError, ValueError) as exc:
            reason = getattr(exc, "reason", None) or getattr(exc, "strerror", None) or exc
            files = ", ".join(str(each) for each in (self._certificate, self._key, self._ca, self._crl) if each)
            raise ValueError(f"fleet.tls: {files} cannot be used: {reason}") from None


def fingerprint(certificate: bytes) -> str:
    """Of a certificate in DER."""
    return hashlib.sha256(certificate).hexdigest()


def _of_secret(secret: str, name: str) -> PeerTls:
    seed = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=b"lockgate fleet CA").derive(secret.encode())
    authority = Ed25519PrivateKey.from_private_bytes(seed)
    key = Ed25519PrivateKey.generate()
    # Fleets of one name would else be told that a signature is wrong, not that the CA is another one.
    issued_by = _named(f"lockgate fleet {hashlib.sha256(_public(authority)).hexdigest()[:16]}")
    ca = _certificate(issued_by, issued_by, authority, authority, is_ca=True)
    own = _certificate(_named(name.encode("ascii", "replace").decode()[:64]), issued_by, key, authority, is_ca=False)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def load(context: ssl.SSLContext) -> None:
        _load_from_memory(context, own.public_bytes(Encoding.PEM) + private)
        context.load_verify_locations(cadata=ca.public_bytes(Encoding.PEM).decode())

    return _contexts(load, own.public_bytes(Encoding.DER))


def _contexts(load: Callable[[ssl.SSLContext], None], own: bytes) -> PeerTls:
    accepts, dials = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    accepts.num_tickets = 0
    for context in (accepts, dials):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # gateways move; the proof in the greeting says who it is
        context.verify_mode = ssl.CERT_REQUIRED
        load(context)
    return PeerTls(accepts, dials, fingerprint(own))


def _load_from_memory(context: ssl.SSLContext, pem: bytes) -> None:
    """Python loads keys from files only: from one that is in memory, so that no disk ever has the key."""
    descriptor = os.memfd_create("lockgate peer", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: Ed25519PrivateKey, by: Ed25519PrivateKey, *, is_ca: bool
) -> x509.Certificate:
    usage = x509.KeyUsage(
        digital_signature=not is_ca,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=0 if is_ca else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
        .sign(by, None)
    )
