"""A CA of a test, and what it signs: certificates of servers at 127.0.0.1 and of clients."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import trustme

HOST = "127.0.0.1"


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
