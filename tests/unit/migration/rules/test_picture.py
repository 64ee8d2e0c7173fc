"""The picture of what was discovered."""

from __future__ import annotations

from xml.etree import ElementTree

from gateway.migration.rules.picture import ROWS, svg
from gateway.migration.rules.sets import Discovered, MoveSet, SetKind
from gateway.migration.rules.snapshot import NotKnown
from gateway.migration.rules.ties import Tie, Why, group, topic, transactional_id

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*sets: MoveSet) -> ElementTree.Element:
    return ElementTree.fromstring(svg(Discovered(cluster_id="<C>", sets=sets, not_known=(NotKnown("a & b", "c"),))))


def test_every_node_and_tie_is_drawn_once_with_its_reason() -> None:
    ties = (
        Tie(transactional_id("t"), topic("a<b"), Why.WRITES_IN_TRANSACTIONS, "because"),
        Tie(transactional_id("t"), group("g"), Why.COMMITS_IN_TRANSACTIONS, "by hash", likely=True),
        Tie(group("g"), topic("a<b"), Why.READS, "reads it", binds=False),
    )
    one = MoveSet(
        name="s", kind=SetKind.TRANSACTIONAL, topics=("a<b",), groups=("g",), transactional_ids=("t",), ties=ties
    )
    picture = drawn(one)
    paths = [path for path in picture.iter(f"{SVG}path") if path.find(f"{SVG}title") is not None]
    assert len(paths) == 3
    assert sorted(path.get("class", "") for path in paths) == ["tie", "tie READS", "tie likely"]
    assert any("because" in (path.findtext(f"{SVG}title") or "") for path in paths)
    assert len([rect for rect in picture.iter(f"{SVG}rect") if rect.get("class") in ("topic", "group")]) == 2


def test_neighbours_stand_side_by_side() -> None:
    topics = tuple(f"t{n}" for n in range(3))
    ties = tuple(Tie(group(f"g{2 - n}"), topic(f"t{n}"), Why.READS, "", binds=False) for n in range(3))
    picture = drawn(MoveSet(name="s", kind=SetKind.PLAIN, topics=topics, groups=("g0", "g1", "g2"), ties=ties))
    for path in picture.iter(f"{SVG}path"):
        if path.find(f"{SVG}title") is not None:
            start, end = path.get("d", "")[1:].replace("C", " ").split()[1], path.get("d", "").split()[-1]
            assert start == end  # straight lines: no crossing is left


def test_a_large_set_is_cut_and_says_so() -> None:
    one = MoveSet(name="s", kind=SetKind.PLAIN, topics=tuple(f"t{n}" for n in range(ROWS + 7)))
    picture = svg(Discovered(sets=(one,)))
    assert "7 more topics" in picture
    assert picture.count('class="topic"') == ROWS


def test_it_needs_nothing_from_outside() -> None:
    text = svg(Discovered())
    assert "href" not in text
    assert text.count("http") == 1  # the namespace
