"""When a forwarded Produce is answered."""

from __future__ import annotations

from enum import StrEnum


class Ack(StrEnum):
    """When a forwarded Produce is answered."""

    SOURCE = "source"
    BOTH = "both"
