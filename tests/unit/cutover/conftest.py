"""Promotes, failbacks and failovers have limits of seconds: their tests run in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.support.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], VirtualTimeLoop]]:
    """Of pytest-asyncio: which loops the tests of this folder run on."""
    return {"virtual time": VirtualTimeLoop}
