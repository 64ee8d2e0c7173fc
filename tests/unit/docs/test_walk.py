"""A page is walked from its top, each command once and in order; what is shown is compared with what is printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.devcluster import release_ports
from tests.docs import walk as walks
from tests.docs.stage import Stage
from tests.docs.walk import walk
from tests.support.pages import shown


class Written(Stage):
    """Prints what a test says, a line each time that a command is typed."""

    def __init__(self, folder: Path, *prints: tuple[int, str]) -> None:
        super().__init__(folder, "127.0.0.1:30001", "127.0.0.1:30002")
        self.typed: list[str] = []
        self.prints = list(prints)

    def type_it(self, line: str, until: str | None = None) -> tuple[int, str]:
        self.typed.append(self.meant(line))
        return self.prints.pop(0)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shown, "ROOT", tmp_path)
    monkeypatch.setattr(walks, "LOOKED_S", 0.0)
    return tmp_path / "page.md"


@pytest.fixture(autouse=True)
def ports() -> Iterator[None]:
    from gateway.devcluster import ports as claimed

    yield
    release_ports(list(claimed._claimed))


BLOCK = (
    "<!-- run on clusters -->\n```sh\nlockgate link create west --bootstrap source-1:9092\nlockgate link list\n```\n"
)


def test_commands_are_run_in_order_with_the_addresses_that_are_here(page: Path, tmp_path: Path) -> None:
    page.write_text(BLOCK + "\n<!-- not run: no docker -->\n```sh\ndocker ps\ndocker rm x\n```\n")
    stage = Written(tmp_path, (0, "created\n"), (0, "west\n"))
    walked = walk(page, stage)
    assert stage.typed == ["lockgate link create west --bootstrap 127.0.0.1:30001", "lockgate link list"]
    assert (walked.commands, walked.outputs, walked.left_out, walked.wrong) == (2, 0, 2, "")


def test_a_print_that_is_not_what_the_page_shows_fails(page: Path, tmp_path: Path) -> None:
    page.write_text(BLOCK + "\n```text\ncreated\neast\n```\n")
    walked = walk(page, Written(tmp_path, (0, "created\n"), (0, "west\n")))
    assert walked.wrong.startswith("page.md:2: AssertionError: the page shows")
    assert walked.outputs == 0


def test_what_only_looks_looks_again(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "LOOKED_S", 10.0)
    page.write_text(BLOCK + "\n```text\ncreated\neast\n```\n")
    stage = Written(tmp_path, (0, "created\n"), (0, "west\n"), (0, "east\n"))
    walked = walk(page, stage)
    assert (walked.wrong, walked.outputs, stage.typed[1:]) == ("", 1, ["lockgate link list"] * 2)


def test_an_exit_code_that_nobody_expects_ends_the_page(page: Path, tmp_path: Path) -> None:
    page.write_text(BLOCK + BLOCK)
    walked = walk(page, Written(tmp_path, (1, "error: no\n")))
    assert "ended with 1" in walked.wrong
    assert walked.commands == 1


def test_the_last_command_of_a_block_may_be_refused(page: Path, tmp_path: Path) -> None:
    page.write_text(BLOCK.replace("clusters -->", "clusters: 1 -->"))
    assert walk(page, Written(tmp_path, (0, ""), (1, "error: no\n"))).wrong == ""


def test_a_word_that_is_asked_for_is_typed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "127.0.0.1:30001", "127.0.0.1:30002")
    line = "printf 'Type west to go on: '; read word; echo got $word; printf 'Type b to go on: '; read word; exit 3"
    code, seen = stage.type_it(line)
    assert code == 3
    assert "got west" in seen


def test_a_command_that_goes_on_for_ever_is_ended_by_ctrl_c(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "127.0.0.1:30001", "127.0.0.1:30002")
    code, seen = stage.type_it("trap 'exit 0' INT; while :; do echo DONE; read line; done", until="DONE")
    assert code == 0
    assert "DONE" in seen


def test_the_settings_that_pages_name_are_those_of_this_machine(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "127.0.0.1:30001", "127.0.0.1:30002")
    text = (tmp_path / "configs" / "minimal.yaml").read_text(encoding="utf-8")
    assert "bootstrap.servers: 127.0.0.1:30002" in text
    assert f"bootstrap_port: {stage.gateway.split(':')[1]}" in text
