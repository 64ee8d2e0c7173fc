"""What of a table stays at which width."""

from __future__ import annotations

import pytest

from gateway.cli.rules.layout import BadColumn, Column, Shape, Sorted, View, laid_out, wrapped

NAME, LAG = Column("Name"), Column("Lag", right=True)
COLUMNS = (NAME, LAG, Column("Lag ms", 1, right=True), Column("Mode", 2), Column("Error", is_note=True))
ROWS: list[list[object]] = [["orders", 5, 40, "preserve", ""], ["clicks", "?", "?", "translate", "the source is gone"]]


def lines(width: int | None, rows: list[list[object]] = ROWS, **view: object) -> list[str]:
    made = laid_out(COLUMNS, rows, View(**view), width)  # type: ignore[arg-type]
    return [made.head, *made.body, *made.left_out, *made.notes]


def test_all_fits() -> None:
    assert lines(80) == [
        "Name    Lag  Lag ms  Mode",
        "orders    5      40  preserve",
        "clicks    ?       ?  translate",
        "clicks: the source is gone",
    ]
    assert lines(None) == lines(80)


@pytest.mark.parametrize(
    ("width", "head", "left"),
    [
        (29, "Name    Lag  Lag ms", ["Mode"]),
        (18, "Name    Lag", ["Lag ms", "Mode"]),
        (3, "Name  Lag", ["Lag ms", "Mode"]),
    ],
)
def test_the_lesser_leave_first(width: int, head: str, left: list[str]) -> None:
    made = laid_out(COLUMNS, ROWS, View(), width)
    assert (made.head, list(made.left_out)) == (head, left)


def test_a_name_without_room_has_a_line_of_its_own() -> None:
    long = "x" * 60
    made = laid_out(COLUMNS, [[long, 7, 1, "preserve", ""], *ROWS], View(), 48)
    assert made.head == "Name    Lag  Lag ms  Mode"
    assert made.body[:3] == (long, "          7       1  preserve", "orders    5      40  preserve")
    assert made.row_of == (0, 0, 1, 2)


def test_a_column_that_says_nothing_is_not_shown_but_one_that_decides() -> None:
    made = laid_out([NAME, LAG, Column("Mode", 2)], [["a", "", ""]], View(), 80)
    assert made.head == "Name  Lag"
    assert made.left_out == ()


def test_wide_is_wide() -> None:
    columns = [NAME, Column("Id", 1, is_wide=True)]
    assert laid_out(columns, [["a", "7"]], View(), 80).head == "Name"
    assert laid_out(columns, [["a", "7"]], View(shape=Shape.WIDE), 3).head == "Name  Id"
    assert laid_out(columns, [["a", "7"]], View(columns=("id",)), 80).body == ("7",)


def test_cells_of_wide_characters_stand_under_their_heading() -> None:
    made = laid_out([NAME, LAG], [["ab", 1], ["\u6ce8\u6587", 2]], View(), 80)
    assert made.body == ("ab      1", "\u6ce8\u6587    2")


def test_several_sentences_of_a_row() -> None:
    columns = [NAME, Column("Error", is_note=True), Column("Remedy", is_note=True)]
    made = laid_out(columns, [["a", ["one", "two"], "lockgate mirror repair a"]], View(), None)
    assert made.notes == ("a: one", "  two", "  remedy: lockgate mirror repair a")


def test_a_sentence_is_broken_between_words() -> None:
    assert wrapped("orders: see lockgate mirror repair --link west", 24) == [
        "orders: see lockgate",
        "  mirror repair --link",
        "  west",
    ]


def test_order() -> None:
    columns = [NAME, LAG]
    rows: list[list[object]] = [["a", Sorted("2 KB/s", 2000.0)], ["b", "?"], ["c", Sorted("9 B/s", 9.0)]]

    def by(sort: str) -> list[str]:
        return list(laid_out(columns, rows, View(shape=Shape.NAME, sort=sort), None).body)

    assert by("lag") == ["c", "a", "b"]
    assert by("-lag") == ["a", "c", "b"]
    assert by("-NAME") == ["c", "b", "a"]
    with pytest.raises(BadColumn, match=r"'lga' \(did you mean 'lag'\?\); there are name, lag"):
        by("lga")
