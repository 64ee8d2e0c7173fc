"""The files of this gateway's own secrets, and the keys that it encrypts others with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gateway.api.access.token_file import TokenError, default_path, read_private
from gateway.config.settings import Settings
from gateway.operations.secrets.sealing import SealingKeys, keys_of


def sealing_keys(path: str) -> SealingKeys | None:
    """None when no file is set. Raises ValueError, one line that names the setting, for one of no use."""
    if not path:
        return None
    try:
        return keys_of(read_private(Path(path), group=True))
    except FileNotFoundError:
        raise ValueError(f"links.key_file: {path} is not there; `openssl rand -base64 32` makes a key") from None
    except (TokenError, ValueError) as exc:
        raise ValueError(f"links.key_file: {exc}") from None


def own_files(settings: Settings) -> Iterator[Path]:
    """Files with secrets that are the gateway's own: no link is to name them, by whatever name."""
    api = settings.api
    yield Path(api.token_file) if api.token_file else default_path(os.environ)
    yield from (each.token_file for each in api.principals if each.token_file is not None)
    served = [api.tls, settings.fleet.tls, *(each.tls for each in settings.endpoints().values())]
    yield from (tls.key for tls in served if tls is not None)
    yield from map(Path, filter(None, (settings.links.key_file, settings.target.get("ssl.key.location"))))
