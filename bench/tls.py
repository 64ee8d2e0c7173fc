"""The certificate that HAProxy and the gateway both show, and how clients check it."""

from __future__ import annotations

from pathlib import Path

import trustme

HOST = "127.0.0.1"


class Certificate:
    """PEM files in a folder: who signs, the certificate, its key, and both in one."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.ca, self.certificate = folder / "ca.pem", folder / "server.crt"
        self.key, self.both = folder / "server.key", folder / "server.pem"
        authority = trustme.CA()
        made = authority.issue_cert(HOST)
        authority.cert_pem.write_to_path(str(self.ca))
        made.cert_chain_pems[0].write_to_path(str(self.certificate))
        made.private_key_pem.write_to_path(str(self.key))
        made.private_key_and_cert_chain_pem.write_to_path(str(self.both))

    @property
    def client(self) -> dict[str, str]:
        """Properties of a Java client."""
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }
