"""What the sections of the settings are made of."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Port = Annotated[int, Field(ge=1, le=65_535)]

_LOOPBACK_NAMES = ("localhost", "localhost.localdomain")


class Section(BaseModel):
    """Unknown keys are errors; nothing changes after the start."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine only. Another name than localhost is not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in _LOOPBACK_NAMES
