"""The keys that this gateway encrypts secrets with, from their file."""

from __future__ import annotations

from pathlib import Path

from gateway.api.access.token_file import TokenError, read_private
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
