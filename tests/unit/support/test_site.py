"""What `make docs` finds without building the site: commands, marks, beginnings and pages that nobody reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import concepts, moving_picture, shown, site


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (site, shown):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path / "page.md"


def test_pages_show_only_commands_that_there_are() -> None:
    assert [wrong for page in site.with_commands() for wrong in site.unknown_commands(page)] == []


def test_pages_name_only_metrics_that_there_are() -> None:
    assert [wrong for page in site.pages() for wrong in site.unknown_metrics(page)] == []


def test_every_block_of_commands_has_a_mark_and_what_it_names_is_there() -> None:
    assert [wrong for page in site.with_commands() for wrong in site.wrong_marks(page)] == []


def test_every_page_begins_with_when_one_needs_it_and_is_reached() -> None:
    assert [wrong for page in site.pages() for wrong in site.without_beginning(page)] == []
    assert site.orphans() == []


def test_the_pictures_of_the_concepts_are_those_that_are_drawn() -> None:
    for name in concepts.PICTURES:
        assert (concepts.FOLDER / f"{name}.svg").read_text(encoding="utf-8") == concepts.drawn(name), name


def test_the_moving_picture_has_a_frame_for_each_picture_of_the_console() -> None:
    kinds = [kind for kind, _ in moving_picture.chunks(moving_picture.MADE.read_bytes())]
    assert kinds.count(b"fcTL") == len(moving_picture.FRAMES)
    assert moving_picture.moving().startswith(moving_picture.MADE.read_bytes()[:33]), "the same size and kind of pixels"


def test_an_unknown_command_and_an_unknown_option_are_told(page: Path) -> None:
    page.write_text("Say `lockgate mirror promte x`.\n\n```sh\nlockgate mirror list --lnk west   # --not\n```\n")
    assert site.unknown_commands(page) == [
        "page.md: lockgate mirror list --lnk west: no option --lnk",
        "page.md: lockgate mirror promte x: no command 'mirror promte'",
    ]


def test_a_mark_names_a_test_that_has_the_words(page: Path) -> None:
    page.write_text("<!-- run by test_it.py -->\n```sh\nlockgate mirror list\nlockgate group list\n```\n")
    (page.parent / "test_it.py").write_text('run("mirror", "list")')
    assert site.wrong_marks(page) == ["page.md:2: by test_it.py: not there: lockgate group list"]


def test_a_block_is_run_and_what_it_prints_is_compared(page: Path) -> None:
    page.write_text("<!-- run -->\n```sh\necho one\necho two\n```\n\n```text\none\ntwo\n```\n")
    assert site.run_here(page) == (2, [])
    page.write_text("<!-- run: 3 -->\n```sh\nexit 3\n```\n\n<!-- run -->\n```sh\necho one\n```\n\n```text\ntwo\n```\n")
    count, wrong = site.run_here(page)
    assert count == 2
    assert wrong == ["page.md: ['echo one']: prints\none\n"]


def test_an_unknown_metric_is_told(page: Path) -> None:
    page.write_text("`lockgate_mirror_lag_records`, `lockgate_mirror_*`, `__lockgate_state`, `lockgate_mirror_lagg`\n")
    assert site.unknown_metrics(page) == ["page.md: no metric lockgate_mirror_lagg"]
