"""Group promotes look again soon: their clock is the test's own."""

from __future__ import annotations

import pytest

from gateway.groups import promote


@pytest.fixture(autouse=True)
def looks_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promote, "POLL_S", 0.005)
