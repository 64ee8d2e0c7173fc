"""Files that hold one bearer token, and the one that a gateway makes for whoever runs it.

The gateway and the `lockgate` command of one user on one machine look in the same place, so that neither has to be
told. The file is its owner's alone: it is made so, and it is not used when it is not so any more. Nobody is given a
token on a command line, where every user of the machine can read it.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

MIN_LENGTH: Final = 16
"""Of a token, in characters. The gateway's own have 43 (256 bits)."""
_LONGEST: Final = 4_096


class TokenError(ValueError):
    """A token file that cannot be used: one line that names it and the remedy."""


def default_path(environment: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/lockgate/api.token`, by default `~/.local/state/lockgate/api.token`."""
    state = environment.get("XDG_STATE_HOME", "")
    folder = Path(state) if state.startswith("/") else Path(environment.get("HOME") or "/") / ".local" / "state"
    return folder / "lockgate" / "api.token"


def read_token(path: Path, *, group: bool = False) -> str:
    """The token in a file.

    Args:
        group: the file's group may read it, as it may a secret that Kubernetes mounts.

    Raises:
        TokenError: others can read it, another user made it, or there is no token in it.
        FileNotFoundError: there is none.
    """
    text = read_private(path, group=group)
    if len(text) < MIN_LENGTH or not text.isascii() or not text.isprintable() or " " in text:
        raise TokenError(f"{path}: a token has {MIN_LENGTH} ASCII characters or more, and no blanks")
    return text


def read_private(path: Path, *, group: bool = False) -> str:
    """The text of a file that its owner alone can read, up to 4 KiB.

    Args:
        group: the file's group may read it, too.

    Raises:
        TokenError: others can read it, or another user made it.
        FileNotFoundError: there is none.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            text = file.read(_LONGEST).decode().strip()
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise TokenError(f"cannot read {path}: {exc.strerror}") from exc
    except UnicodeDecodeError:
        raise TokenError(f"{path} is not text") from None
    open_to = stat.S_IRWXO | (stat.S_IWGRP if group else stat.S_IRWXG)
    if found.st_uid not in (0, os.geteuid()):
        raise TokenError(
            f"{path} is owned by uid {found.st_uid}, not by you (uid {os.geteuid()}): run as that user, or use the "
            "API's Unix socket (api.socket)"
        )
    if found.st_mode & open_to:
        wanted = "chmod o-rwx,g-w" if group else "chmod 600"
        raise TokenError(
            f"{path} is a secret that others can read or change (mode {stat.S_IMODE(found.st_mode):04o}): {wanted}"
        )
    return text


def read_or_make(path: Path) -> tuple[str, bool]:
    """The token in the gateway's own file, and whether the file was made just now.

    Of several gateways that start at once, one makes it and all have the same.

    Raises:
        TokenError: it cannot be made or used.
    """
    try:
        return read_token(path), False
    except FileNotFoundError:
        pass
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, path)  # unlike a rename, never over another one's
                made = True
            except FileExistsError:
                made = False
        finally:
            draft.unlink(missing_ok=True)
        return read_token(path), made
    except OSError as exc:
        raise TokenError(
            f"cannot make the token file {path}: {exc.strerror}; name one that this user may write in api.token_file"
        ) from exc
