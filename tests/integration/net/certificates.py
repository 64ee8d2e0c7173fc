"""Certificates for tests, made with the JDK's keytool: the JDK is needed for the brokers anyway."""

import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("Certificates.java")
_EXPORTS = "java.base/sun.security.tools.keytool=ALL-UNNAMED"


def make_certificates(folder: Path, *names: str) -> None:
    """Make an authority in the folder (`ca.pem`) and, signed by it, `NAME.pem` with key and chain for each name."""
    folder.mkdir()
    command = ["java", "--add-exports", _EXPORTS, str(_SOURCE), str(folder), *names]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
