"""Settings from a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.file import load
from gateway.config.settings import Settings


@pytest.fixture
def load_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def work(text: str) -> Settings:
        Path("gw.yaml").write_text(text, encoding="utf-8")
        return load(Path("gw.yaml"))

    return work
