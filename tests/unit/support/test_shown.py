"""What a page shows: blocks, their marks, commands of the text, and whether a print is what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.scenes import SCENES
from tests.support.pages import shown
from tests.support.pages.shown import alike, blocks, is_whole
from tests.support.pages.site import with_commands


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shown, "ROOT", tmp_path)
    return tmp_path / "page.md"


def test_marks_are_of_the_next_block_alone(page: Path) -> None:
    page.write_text(
        "# A\n\n<!-- setup: topics orders, link -->\n<!-- run on clusters, until DONE -->\n"
        "```sh\nlockgate health\n```\n\n"
        "<!-- differs: 7 -->\n```text\n7 gateways\n```\n\n```sh\nls   # a comment\n```\nText.\n```text\nno print\n```\n"
    )
    first, second = blocks(page)
    assert (first.line, first.setups, first.lines) == (5, ("topics orders", "link"), ["lockgate health"])
    assert first.on_clusters is not None
    assert first.on_clusters["until"] == "DONE"
    assert (first.printed, first.differs) == ("7 gateways", ("7",))
    assert (second.how, second.lines, second.printed, second.setups) == (None, ["ls"], None, ())


def test_one_that_is_not_run_says_why(page: Path) -> None:
    page.write_text("<!-- not run: needs a cluster of Kubernetes -->\n```sh\nkubectl get pods\n```\n")
    (block,) = blocks(page)
    assert block.reason == "needs a cluster of Kubernetes"
    assert block.on_clusters is None


def test_a_quote_may_end_on_another_line(page: Path) -> None:
    page.write_text("<!-- run on clusters: 1 -->\n```sh\necho '{\n  1}' \\\n  two\necho three\n```\n")
    (block,) = blocks(page)
    assert block.lines == ["echo '{\n  1}'    two", "echo three"]
    assert block.on_clusters is not None
    assert block.on_clusters["code"] == "1"


def test_whole_commands_of_the_text_are_run_down_to_the_next_heading(page: Path) -> None:
    page.write_text(
        "## A\n\n<!-- setup: link -->\n<!-- run what follows on clusters -->\n\nAsk `lockgate gateway list`, or\n"
        "`lockgate mirror failover`; `lockgate group describe GROUP`.\n\n## B\n\nNot `lockgate link list`.\n"
    )
    assert [(block.lines, block.setups) for block in blocks(page)] == [
        (["lockgate gateway list"], ("link",)),
        (["lockgate group describe GROUP"], ()),
    ]
    assert all(block.on_clusters for block in blocks(page))


@pytest.mark.parametrize(
    ("command", "whole"),
    [
        ("lockgate gateway list", True),
        ("lockgate mirror list --link west --sort -lag", True),
        ("lockgate mirror promote orders --link west --cancel", True),
        ("lockgate mirror promote --link west", False),
        ("lockgate mirror promote TOPIC --dry-run", True),
        ("lockgate mirror", False),
        ("lockgate job catch-up", False),
        ("lockgate group describe …", False),
    ],
)
def test_a_command_that_lacks_an_argument_only_names_one(command: str, whole: bool) -> None:
    assert is_whole(command) is whole


@pytest.mark.parametrize(
    ("wanted", "printed", "same"),
    [
        ("lag   0", "lag 0\n", True),
        ("lag 0", "lag 1", False),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…\nd", "a\nb\nc", False),
        ("since 2026-11-26 18:00:00, 41 ms", "since 2027-01-02 03:04:05, 1.5 ms", True),
        ("41 ms", "41 records", False),
        ("at 10.1.4.17", "at 127.0.0.1", True),
        ("promoted … by …", "promoted orders by me", True),
        ("38 records (38 of 40)", "7 records (7 of 40)", True),
        ("38 records (38 of 40)", "7 records (7 of 41)", False),
    ],
)
def test_a_print_is_what_is_shown(wanted: str, printed: str, same: bool) -> None:
    assert alike(wanted, printed, ["38"]) is same


def test_pages_name_scenes_that_there_are() -> None:
    named = {scene.split()[0] for page in with_commands() for block in blocks(page) for scene in block.setups}
    assert named - set(SCENES) == set()
