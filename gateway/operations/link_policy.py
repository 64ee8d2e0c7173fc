"""What a link's client properties may make this gateway do: which files it reads, and whom it believes.

Whoever may create links names files by path and says how brokers are to be checked. Without a rule that is a way to
ask for any file of this machine (the errors tell whether it is there and what is in it), and to send the link's
password to whoever stands on the way. So files are in one folder, and checks stay on, unless the gateway's own settings
say otherwise.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from gateway.kafka.connection.properties import PROPERTIES
from gateway.state.schemas.registry_properties import REGISTRY_FILES, sends_secrets_in_the_clear

_FILES: Final = ("tls_ca", "tls_certificate", "tls_key", "oauth_ca")
_CHECKS: Final = ("tls_verify_hostname", "tls_verify_certificate")


@dataclass(frozen=True, slots=True)
class LinkPolicy:
    """`files`: the folder that ssl.*.location and the files of secrets are in; '': none may be named.

    `allow_unverified_tls`: links may switch the check of certificates or host names off. `variables`: names of the
    environment variables that secrets may be in, with `*` for any characters.
    """

    files: str = ""
    allow_unverified_tls: bool = False
    variables: tuple[str, ...] = ()

    def require(self, client: Mapping[str, str]) -> None:
        """Looks at nothing outside the folder.

        Raises:
            ValueError: one line that names the property, and the option that would allow it.
        """
        for name, value in client.items():
            field = PROPERTIES[name].field if name in PROPERTIES else ""
            file = value if name in REGISTRY_FILES else _file(field, value)
            if file is not None:
                try:
                    self.require_file(file)
                except ValueError as exc:
                    raise ValueError(f"{name}: {exc}") from None
            if field in _CHECKS and not self.allow_unverified_tls and not _is_checked(name, value):
                raise ValueError(
                    f"{name}: a link must check its brokers' certificates and host names; "
                    "links.allow_unverified_tls in the gateway's settings would allow it"
                )
        shown = "" if self.allow_unverified_tls else sends_secrets_in_the_clear(client)
        if shown:
            raise ValueError(
                f"{shown}: would be sent over http://, where others read it: give an https:// URL; "
                "links.allow_unverified_tls in the gateway's settings would allow it"
            )

    def require_file(self, path: str) -> None:
        """Raises ValueError for a file that links may not name; looks at nothing outside the folder."""
        if not self.files:
            raise ValueError("links may not name files; links.files in the gateway's settings is the folder for them")
        folder = os.path.abspath(self.files)  # noqa: PTH100 - without a look at the file system
        named = os.path.abspath(path)  # noqa: PTH100
        if not (_is_in(named, folder) and _is_in(os.path.realpath(path), os.path.realpath(folder))):
            raise ValueError(f"{path} is not in the folder of links' files (links.files)")

    def require_variable(self, name: str) -> None:
        """Raises ValueError for an environment variable that links may not name, whether it is set or not."""
        if not any(fnmatch.fnmatchcase(name, allowed) for allowed in self.variables):
            allowed = ", ".join(self.variables) or "none"
            raise ValueError(f"links may not name the variable {name}; links.variables allows {allowed}")


DEFAULT_POLICY: Final = LinkPolicy()


def _is_in(path: str, folder: str) -> bool:
    return "\0" not in path and os.path.commonpath((path, folder)) == folder


def _file(field: str, value: str) -> str | None:
    """The file that a property names."""
    if field == "oauth_url":
        return unquote(urlsplit(value).path) if value.lower().startswith("file:") else None
    return value if field in _FILES else None


def _is_checked(name: str, value: str) -> bool:
    """What cannot be read is refused later, with its own reason."""
    try:
        return bool(PROPERTIES[name].parse(str(value)))
    except ValueError:
        return True
