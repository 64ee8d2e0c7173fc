"""Limits of clients as the settings have them, but for what a test says."""

from __future__ import annotations

from gateway.config.listeners import Limits as Settings
from gateway.proxy.rules.limits import Limits


def limits_with(**changes: float) -> Limits:
    """By the names of `Limits`."""
    return Limits(**{**Settings().model_dump(), **changes})
