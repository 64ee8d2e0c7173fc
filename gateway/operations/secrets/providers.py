"""What references stand for on this machine: files in the folder of links' files, environment variables for links.

Read anew each time: a secret that has changed counts from the next login on.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.operations.link_policy import LinkPolicy
from gateway.operations.secrets.rules.properties_file import properties
from gateway.operations.secrets.rules.references import Reference

_LONGEST: Final = 65_536


def read(found: Reference, link: str, policy: LinkPolicy, environment: Mapping[str, str]) -> str:
    """The secret, for the link of this name.

    Raises:
        ValueError: it may not be had, or is not there. Names the place, not the secret.
    """
    if found.provider == "env":
        policy.require_variable(found.key, link)
        if not environment.get(found.key):
            raise ValueError(f"{found.key} is not set in the environment of the gateway")
        return environment[found.key]
    path = found.path if found.provider == "file" else f"{found.path}/{found.key}"
    policy.require_file(path, link)
    text = _text(Path(path))
    # a mounted secret is the whole file, but for the line's end that editors add
    secret = properties(text).get(found.key, "") if found.provider == "file" else text.strip("\r\n")
    if not secret:
        raise ValueError(f"{path} has no {found.key!r}" if found.provider == "file" else f"{path} is empty")
    return secret


def _text(path: Path) -> str:
    try:
        # without waiting for the writer of a pipe
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError(f"{path} is not a file")
            data = file.read(_LONGEST + 1)
    except OSError as exc:
        raise ValueError(f"cannot read {path}: {exc.strerror}") from None
    if len(data) > _LONGEST:
        raise ValueError(f"{path} is longer than {_LONGEST} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8") from None
