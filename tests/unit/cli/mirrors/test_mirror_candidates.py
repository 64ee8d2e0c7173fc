"""`lockgate mirror candidates`."""

from __future__ import annotations

import json


def test_a_line_for_each_with_its_reason(linked, run):
    linked.plane.source.add("__x", 1)

    shown = run("mirror", "candidates", "--link", "l")
    lines = shown.stdout.splitlines()

    assert shown.stderr.startswith("Auto-create: NOT_CONFIGURED")  # since when: once its task has looked
    assert lines[0].split() == ["Source", "topic", "Reason", "Mirror", "topic"]
    assert [line.split() for line in lines[1:4]] == [
        ["__x", "INTERNAL", "__x"],
        ["clicks", "AUTO_CREATE_OFF", "clicks"],
        ["orders", "AUTO_CREATE_OFF", "orders"],
    ]
    assert [line.partition(": ")[0] for line in lines[5:]] == ["__x", "clicks", "orders"]


def test_those_with_one_reason(linked, run):
    shown = json.loads(run("mirror", "candidates", "--link", "l", "--reason", "internal", "-o", "json").stdout)
    assert shown["data"] == []
    assert (
        "no topic with the reason internal" in run("mirror", "candidates", "--link", "l", "--reason", "internal").stdout
    )
    assert "reason" in run("mirror", "candidates", "--link", "l", "--reason", "green", code=2).stderr


def test_a_link_that_is_not_there(linked, run):
    assert run("mirror", "candidates", "--link", "x", code=1).stderr == "error: link 'x' does not exist\n"
