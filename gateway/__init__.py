"""The gateway, and the commands that ask it. Not to be imported by others: `lockgate` is."""

from typing import Final

DISTRIBUTION: Final = "lockgate"
"""Whose package this is (`lockgate.require_own_packages`)."""
