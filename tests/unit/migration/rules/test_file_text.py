"""Migration files as text: each problem with its line, and texts that must cost nothing."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yaml.nodes import Node

from gateway import yaml_lines
from gateway.migration.rules.file import FileError, plain
from gateway.migration.rules.file_text import SHOWN, TEXT_BYTES, Problem, TextError, of_yaml

HEAD = "migration: m\nlink: west\n"
FILE = HEAD + "applications:\n- name: a\n  topics: [t]\n"


def problems(text: str) -> list[Problem]:
    with pytest.raises(TextError) as refused:
        of_yaml(text)
    assert "\n" not in str(refused.value)
    return list(refused.value.problems)


def test_a_file_with_comments_and_aliases() -> None:
    text = HEAD + (
        "# nights\n"
        "applications:\n"
        "- {name: a, topics: [t], windows: [&night {from: '22:00', to: '04:00'}]}\n"
        "- {name: b, groups: [g], windows: [*night]}\n"
    )
    file = of_yaml(text)
    assert [one.name for one in file.applications] == ["a", "b"]
    assert file.applications[0].windows == file.applications[1].windows
    assert plain(of_yaml(FILE))["applications"] == [{"name": "a", "topics": ["t"]}]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: [", 2, "not YAML"),
        (FILE + "colour: red\n", 6, "colour: unknown key"),
        (FILE + "  until: soon\n", 6, "applications.0.until: "),
        (FILE + "- name: b\n", 6, "neither topics nor groups"),
        (FILE + "- topics: [u]\n", 6, "applications.1.name: is required"),
        (FILE + "  options:\n    min_readiness: 101\n", 7, "(it is 101)"),
        (FILE + "  windows:\n  - {from: 22:00, to: '04:00'}\n", 7, "in quotes"),
        (FILE + "waves: [[a], b]\n", 6, "waves.1: must be a list (it is 'b')"),
        (FILE + "link: east\n", 6, "link: is there already, in line 2"),
        (HEAD, None, "applications: is required"),
        (FILE + "- name: a\n  topics: [u]\n", None, "two applications are named 'a'"),
        ("", None, "holds a mapping"),
        ("- a\n", None, "holds a mapping"),
        (FILE + "---\na: 1\n", 6, "but found another document"),
        ("a:\n  'b\n\nc: d\n", 5, "which begins in line 2"),
        ("a: *b\n", 1, "undefined alias"),
        ("a: 1\nb: 2020-13-45\n", 2, "'2020-13-45' is no timestamp: write it in quotes"),
        ("a: !!int ''\n", 1, "is no int"),
        ("a: !!bool maybe\n", 1, "is no bool"),
        ("a: !!python/object:os.system x\n", 1, "could not determine a constructor"),
        ("a: 1\nb: \x00\n", 2, "control characters"),
        ("a: \ud800\n", None, "no text"),
        ("? [a]\n: b\n", 1, "unhashable key"),
    ],
)
def test_what_is_wrong_has_its_line(text: str, line: int | None, words: str) -> None:
    first = problems(text)[0]
    assert first.line == line
    assert words in first.message


def test_the_command_says_the_first_and_how_many_more() -> None:
    with pytest.raises(FileError) as refused:
        of_yaml(FILE + "  until: soon\ncolour: red\n")
    first = "line 6: applications.0.until: must be 'mirrored', 'groups' or 'promoted' (it is 'soon')"
    assert str(refused.value) == f"{first} (and 1 more)"


def test_only_so_many_problems_are_told() -> None:
    with pytest.raises(TextError) as refused:
        of_yaml(FILE + "".join(f"k{index}: 1\n" for index in range(SHOWN + 5)))
    assert len(refused.value.problems) == SHOWN
    assert refused.value.more == 5


def test_lines_are_looked_up_for_those_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look-up goes through the mapping: for every problem of a file it would be its square."""
    looked = list[object]()
    below = yaml_lines._below

    def counted(node: Node, part: str | int) -> tuple[Node, Node] | None:
        looked.append(part)
        return below(node, part)

    monkeypatch.setattr(yaml_lines, "_below", counted)
    with pytest.raises(TextError) as refused:
        of_yaml(FILE + "".join(f"k{index}: 1\n" for index in range(2_000)))
    assert refused.value.more == 2_000 - SHOWN
    assert len(looked) == SHOWN


ALIASES = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 10)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested deeper than 32 levels"),
        ("- " * 100_000, "nested deeper than 32 levels"),
        ("{a: " * 100_000, "nested deeper than 32 levels"),
        (ALIASES, "its aliases stand for too much"),
        ("a: &a [*a]\n", "a part of"),
        ("a: &a {b: *a}\n", "a part of"),
        ("a: 1" + ":1" * 20_000, "10000 characters at most"),
        ("a: " + "9" * 9_000, "is no int"),
        ("#" * (TEXT_BYTES + 1), f"{TEXT_BYTES} bytes at most; this one has {TEXT_BYTES + 1}"),
    ],
    ids=["flow", "block", "maps", "aliases", "itself", "itself in a map", "base 60", "digits", "long"],
)
def test_what_would_cost_too_much_is_refused(text: str, words: str) -> None:
    assert words in problems(text)[0].message


_WORDS = (
    *(
        "a",
        "migration: ",
        "link: ",
        "applications:",
        "\n",
        "- ",
        "  ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "&a ",
        "*a",
        "? ",
        ": ",
    ),
    *("!!int ", "!!set ", "'", '"', "<<: ", "=", "~", "22:00", "2020-13-45", "0x_", "\t", "|\n", "--- ", "%YAML 9"),
    *("\ud800", "\x07"),
)


@given(st.lists(st.sampled_from(_WORDS), max_size=30).map("".join))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    with suppress(TextError):
        of_yaml(text)
