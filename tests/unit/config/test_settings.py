"""The examples load, and the defaults are what full.yaml says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.file import load
from gateway.config.settings import Settings

EXAMPLES = Path(__file__).parents[3] / "configs"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_loads(example, monkeypatch):
    monkeypatch.setenv("TARGET_BOOTSTRAP", "broker:9093")
    monkeypatch.setenv("TARGET_PASSWORD", "s3cret")

    settings = load(example)

    assert settings.target["bootstrap.servers"]


def test_there_are_examples():
    assert {path.name for path in EXAMPLES.glob("*.yaml")} >= {"minimal.yaml", "full.yaml", "secured.yaml"}


def test_full_shows_the_defaults_and_all_of_them():
    assert load(EXAMPLES / "full.yaml").model_dump() == {
        **load(EXAMPLES / "minimal.yaml").model_dump(),
        "listener": {**load(EXAMPLES / "minimal.yaml").listener.model_dump(), "advertised_host": "127.0.0.1"},
    }
    text = (EXAMPLES / "full.yaml").read_text(encoding="utf-8")
    for name, section in Settings.model_fields.items():
        assert f"\n{name}:" in text
        for key in getattr(section.annotation, "model_fields", {}):
            assert key == "tls" or f"\n  {key}:" in text


def test_secrets_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("TARGET_BOOTSTRAP", "broker:9093")
    monkeypatch.setenv("TARGET_PASSWORD", "s3cret")

    assert load(EXAMPLES / "secured.yaml").target["sasl.password"] == "s3cret"
