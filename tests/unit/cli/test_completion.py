"""Names behind Tab: those that the gateway knows, and none from one that does not answer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gateway.api import paging
from gateway.cli import completion
from tests.support.control.control_plane import SOURCE
from tests.unit.cli.conftest import Run


def context(**params):
    return SimpleNamespace(params=params)


def test_names(linked, run: Run):
    run("mirror", "create", "orders", "clicks", "--link", "l")
    assert completion.links(context(), "") == ["l"]
    assert completion.links(context(), "x") == []
    assert completion.topics(context(link="l"), "") == ["clicks", "orders"]
    assert completion.topics(context(link="l"), "o") == ["orders"]
    assert completion.groups(context(link="l"), "") == []


def test_names_of_a_list_in_pages(linked, run: Run, monkeypatch):
    monkeypatch.setattr(paging, "HEAVIEST", 1)
    run("mirror", "create", "orders", "clicks", "--link", "l")
    assert completion.topics(context(link="l"), "") == ["clicks", "orders"]


def test_without_a_link_there_are_the_topics_of_all(linked, run, monkeypatch):
    """The line may name it behind: what comes behind is not known when somebody presses Tab."""
    run("link", "create", "m", "--bootstrap", SOURCE, "--set", "link.prefix=m.")
    run("mirror", "create", "orders", "--link", "l")
    run("mirror", "create", "m.clicks", "--link", "m")
    assert completion.topics(context(), "") == ["m.clicks", "orders"]
    assert completion.topics(context(link="nope"), "") == []
    monkeypatch.setenv("LOCKGATE_LINK", "m")
    assert completion.topics(context(), "") == ["m.clicks"]


def test_words(run):
    assert completion.words("ACTIVE", "FAILED")("a") == ["ACTIVE"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "unix:/nowhere", "nonsense"])
def test_a_gateway_that_does_not_answer_has_no_names(url, capsys):
    assert completion.links(context(url=url), "") == []
    assert capsys.readouterr() == ("", "")


def test_the_shell_asks(linked, run, monkeypatch):
    """As bash does, through the command itself."""
    monkeypatch.setenv("_LOCKGATE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "lockgate link describe ")
    monkeypatch.setenv("COMP_CWORD", "3")
    from typer.testing import CliRunner

    from gateway.cli.main import app

    result = CliRunner().invoke(app, [], prog_name="lockgate")
    assert result.stdout.split() == ["l"]
