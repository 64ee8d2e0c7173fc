"""`--watch`: looks again until Ctrl-C, which is a clean end; whoever refuses ends it, too."""

from __future__ import annotations

import json

import pytest
import yaml

from gateway.cli import watch


@pytest.fixture
def sleeps(monkeypatch):
    """Lets some looks happen; then Ctrl-C is pressed."""
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(watch, "_sleep", sleep)
    return slept


def test_a_table_again_and_again(linked, run, sleeps):
    shown = run("link", "list", "--watch", "--every", "7").stdout
    assert sleeps == [7.0] * 3
    assert [line.split()[0] for line in shown.splitlines() if line] == ["Link", "l"] * 3


def test_yaml_documents_and_json_ones(linked, run, sleeps):
    documents = list(yaml.safe_load_all(run("link", "describe", "l", "-o", "yaml", "-w").stdout))
    assert [one["link_name"] for one in documents] == ["l"] * 3
    sleeps.clear()
    text, found = run("link", "describe", "l", "-o", "json", "-w").stdout, []
    while text.strip():
        one, end = json.JSONDecoder().raw_decode(text.lstrip())
        found.append(one)
        text = text.lstrip()[end:]
    assert [one["link_name"] for one in found] == ["l"] * 3


def test_what_ends_it(linked, run, sleeps):
    assert "does not exist" in run("link", "describe", "x", "--watch", code=1).stderr
    assert sleeps == []


@pytest.mark.parametrize("every", ["0.1", "4000", "x"])
def test_how_often_has_bounds(linked, run, every):
    run("link", "list", "--watch", "--every", every, code=2)


@pytest.mark.parametrize("noun", ["link", "mirror", "group", "gateway"])
@pytest.mark.parametrize("verb", ["list", "describe"])
def test_every_list_and_describe_has_it(run, noun, verb):
    assert "--watch" in run(noun, verb, "--help").stdout
