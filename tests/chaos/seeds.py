"""Secrets that a run puts into its gateways, and the search for them in all that it leaves behind.

A run's clusters ask for no login, so its link carries secrets that nobody asks for: one as it is given, which gateways
encrypt, and one that refers to a variable. With the key that they are encrypted with and the tokens of REST they must
be nowhere in logs, in brokers' files (the state topic is there), in histories, or in the support bundle of a gateway.
"""

from __future__ import annotations

import base64
import secrets
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

BUNDLE: Final = "support.tar.gz"
_REFERENCE: Final = "${env:LOCKGATE_LINK_CHAOS_KEY}"
_BUNDLE_S: Final = 60.0
_CHUNK: Final = 16 << 20
_OF_THEIR_OWN: Final = ("*.token", "links.key")
_COMMAND: Final = (sys.executable, "-c", "from gateway.cli.main import main; main()", "support-bundle")


class Seeds:
    """Of one run, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._given, self._referred = (f"seeded-{secrets.token_hex(12)}" for _ in range(2))
        self.key_file = folder / "links.key"
        self.key_file.write_text(base64.b64encode(secrets.token_bytes(32)).decode(), encoding="ascii")
        self.key_file.chmod(0o600)

    @property
    def environment(self) -> Mapping[str, str]:
        """Of a gateway, besides its own."""
        return {_REFERENCE[6:-1]: self._referred}

    @property
    def of_link(self) -> Mapping[str, str]:
        """Properties of the link."""
        return {"sasl.password": self._given, "ssl.key.password": _REFERENCE}

    def bundle(self, gateway: int, url: str) -> str:
        """Have a gateway's support bundle made. Returns why there is none, '' when it is there."""
        stem = self._folder / f"gateway-{gateway}"
        files = {"--config": f"{stem}.yaml", "--log": f"{stem}.log", "--token-file": f"{stem}.token"}
        options = [
            part for pair in {**files, "--url": url, "--to": str(self._folder / BUNDLE)}.items() for part in pair
        ]
        try:
            subprocess.run([*_COMMAND, *options], check=True, capture_output=True, text=True, timeout=_BUNDLE_S)
        except subprocess.CalledProcessError as error:
            return f"no support bundle: {error.stderr}"
        except subprocess.TimeoutExpired:
            return f"no support bundle within {_BUNDLE_S:g} s"
        return ""

    def leaked(self) -> str:
        """Where secrets are that must be nowhere; '' when they are not."""
        known = self._known()
        found = [f"{what} is in {name}" for name, data in self._texts() for what, text in known.items() if text in data]
        return f"secrets: {'; '.join(sorted(set(found))[:10])}" if found else ""

    def _known(self) -> dict[str, bytes]:
        texts = {"the link's password": self._given, "the link's referred password": self._referred}
        for file in (path for pattern in _OF_THEIR_OWN for path in self._folder.glob(pattern)):
            texts[f"what is in {file.name}"] = file.read_text(encoding="ascii").strip()
        return {name: text.encode() for name, text in texts.items() if text}

    def _texts(self) -> Iterator[tuple[str, bytes]]:
        """Of every file of the run but those that are for secrets; a large one in pieces that overlap."""
        own = {path for pattern in _OF_THEIR_OWN for path in self._folder.glob(pattern)}
        for path in sorted(self._folder.rglob("*")):
            if path in own or not path.is_file():
                continue
            if path.name == BUNDLE:
                yield from _parts(path)
                continue
            with path.open("rb") as file:
                before = b""
                while data := file.read(_CHUNK):
                    yield str(path.relative_to(self._folder)), before + data
                    before = data[-256:]


def _parts(bundle: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(bundle) as opened:
        for entry in opened:
            file = opened.extractfile(entry)
            if file is not None:
                yield f"{bundle.name}: {entry.name}", file.read()
