"""Who may ask over REST, by the token files as they are now.

Each file is looked at by itself, at most once a second: one that is of no use any more leaves its own principal's last
token in force, with a line in the log, and keeps nobody else's from being renewed. The local admin's token is made at
the first start, and made anew when its file was deleted; a Unix socket needs none.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from gateway.api.access import token_file
from gateway.api.access.credentials import Credentials
from gateway.api.access.roles import Role
from gateway.config.api import Api
from gateway.transport.renewed import Renewed

LOCAL: Final = "local"
"""Name of the principal whose token the gateway makes, or who owns the Unix socket."""

_log = structlog.get_logger("lockgate.rest")


class ApiCredentials:
    """Of the settings.

    Raises:
        TokenError: a file that cannot be made or used; names it.
    """

    def __init__(self, settings: Api) -> None:
        self._certificates = [
            (each.name, Role.named(each.role), each.certificate) for each in settings.principals if each.certificate
        ]
        self._files: list[tuple[str, Role, Renewed[str]]] = []
        if not settings.socket:
            own = Path(settings.token_file) if settings.token_file else token_file.default_path(os.environ)
            self._files.append((LOCAL, Role.ADMIN, Renewed("api.token_file", partial(_own_token, own), [own])))
        for each in settings.principals:
            if each.token_file is not None:
                read = partial(_token_of, each.name, each.token_file)
                renewed = Renewed(f"api.principals: {each.name}", read, [each.token_file])
                self._files.append((each.name, Role.named(each.role), renewed))
        self._tokens = self._read()
        self._made = Credentials(self._tokens, self._certificates)

    def now(self) -> Credentials:
        """As the files are."""
        tokens = self._read()
        if tokens != self._tokens:
            self._tokens = tokens
            self._made = Credentials(tokens, self._certificates)
        return self._made

    def _read(self) -> list[tuple[str, Role, str]]:
        return [(name, role, file.get()) for name, role, file in self._files]


def _own_token(path: Path) -> str:
    token, made = token_file.read_or_make(path)
    if made:
        _log.info("the admin's token was made", token_file=str(path))
    return token


def _token_of(name: str, path: Path) -> str:
    try:
        return token_file.read_token(path, group=True)
    except FileNotFoundError:
        raise token_file.TokenError(f"api.principals: {path} of '{name}' does not exist") from None
