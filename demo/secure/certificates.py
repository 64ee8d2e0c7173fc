"""The CA of the demo and what it signs: brokers, the gateway, and each client under its own name."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

HOST: Final = "127.0.0.1"
MAPPING_RULE: Final = "RULE:^CN=([^,]+),.*$/$1/"
"""`ssl.principal.mapping.rules`, for brokers and the gateway: the principal is the certificate's common name."""


class Certificates:
    """PEM files in a folder that is made anew: `ca.pem`, and NAME.crt, NAME.key and both as NAME.pem."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        self.folder = folder
        self.ca = folder / "ca.pem"
        self._ca = trustme.CA()
        self._ca.cert_pem.write_to_path(str(self.ca))

    def issue(self, names: Iterable[str]) -> None:
        """For this machine's address, so that servers can use them, too."""
        for name in names:
            made = self._ca.issue_cert(HOST, common_name=name, organization_name="Demo")
            chain = b"".join(part.bytes() for part in made.cert_chain_pems)
            key = _as_java_reads_it(made.private_key_pem.bytes())
            (self.folder / f"{name}.crt").write_bytes(chain)
            (self.folder / f"{name}.key").write_bytes(key)
            (self.folder / f"{name}.pem").write_bytes(key + chain)

    def client(self, name: str) -> dict[str, str]:
        """Properties of a librdkafka client under this name."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca),
            "ssl.certificate.location": str(self.folder / f"{name}.crt"),
            "ssl.key.location": str(self.folder / f"{name}.key"),
        }


def _as_java_reads_it(key: bytes) -> bytes:
    """PKCS #8: Kafka takes no other."""
    return load_pem_private_key(key, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
