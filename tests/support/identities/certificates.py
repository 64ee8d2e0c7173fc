"""A CA of a test, and what it signs: certificates of servers at 127.0.0.1 and of clients."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

HOST = "127.0.0.1"


def write_revoked(file: Path, ca: trustme.CA, *revoked: Path, hours: int = 24) -> None:
    """The CA's list of certificates that it has taken back, from their PEM files; good for so many hours, or over."""
    authority = x509.load_pem_x509_certificate(ca.cert_pem.bytes())
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.subject)
    builder = builder.last_update(now - datetime.timedelta(days=2)).next_update(now + datetime.timedelta(hours=hours))
    for each in revoked:
        text = each.read_bytes()
        serial = x509.load_pem_x509_certificate(text[text.index(b"-----BEGIN CERTIFICATE") :]).serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        builder = builder.add_revoked_certificate(entry)
    key: Any = load_pem_private_key(ca.private_key_pem.bytes(), None)
    file.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))


class Certificates:
    """PEM files in a folder. `ca.pem` is the CA's, NAME.crt and NAME.key are what was made."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._ca = trustme.CA()
        self.ca = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(str(self.ca))

    def server(self, name: str, *, host: str = HOST, expired: bool = False) -> tuple[Path, Path]:
        """For a host's name or address. Returns certificate and key."""
        yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        return self._write(name, self._ca.issue_cert(host, not_after=yesterday if expired else None))

    def client(self, name: str) -> tuple[Path, Path]:
        """CN=name,O=Test. Returns certificate and key."""
        issued = self._ca.issue_cert(f"{name}@example.org", common_name=name, organization_name="Test")
        return self._write(name, issued)

    def client_of_a_gateway(self, bootstrap: str, name: str | None = None) -> dict[str, Any]:
        """Settings of a librdkafka client with TLS, and with a certificate if it has a name."""
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca),
        }
        if name is not None:
            certificate, key = self.client(name)
            settings |= {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
        return settings

    def _write(self, name: str, issued: trustme.LeafCert) -> tuple[Path, Path]:
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())
        return certificate, key
