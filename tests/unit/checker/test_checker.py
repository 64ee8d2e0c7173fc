"""The checker's own rules where the mutation suite does not reach: outcomes, forms, gaps, exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.checker.__main__ import main
from tests.checker.check import check
from tests.checker.merge import merge
from tests.checker.model import HistoryError
from tests.checker.verdict import Verdict

SETUP = ("ok", "control", "setup", {"home": "source"})


def history(*operations: tuple[Any, ...]) -> list[str]:
    """Lines from (type, process, f, value)."""
    return [json.dumps({"type": t, "process": p, "f": f, "value": v}) for t, p, f, v in operations]


def send(value: str, end: str = "ok", offset: int | None = None, process: str = "p") -> list[tuple[Any, ...]]:
    answer: Any = [offset, value] if end == "ok" else value
    lines = [("invoke", process, "send", [["send", "t/0", value]])]
    return lines if end == "none" else [*lines, (end, process, "send", [["send", "t/0", answer]])]


def poll(*records: tuple[int, str], process: str = "c") -> list[tuple[Any, ...]]:
    return [
        ("invoke", process, "poll", [["poll"]]),
        ("ok", process, "poll", [["poll", {"t/0": [list(record) for record in records]}]]),
    ]


def commit(offset: int, process: str, end: str = "ok") -> list[tuple[Any, ...]]:
    lines = [("invoke", process, "commit", {"t/0": offset})]
    return lines if end == "none" else [*lines, (end, process, "commit", {"t/0": offset})]


def final(side: str, *values: str) -> tuple[Any, ...]:
    records = [[offset, value] for offset, value in enumerate(values)]
    return ("ok", "control", "log", {"side": side, "key": "t/0", "start": 0, "end": len(values), "records": records})


def member(name: str, side: str = "source", group: str = "g") -> list[tuple[Any, ...]]:
    return [("ok", name, "open", {"side": side, "group": group}), ("ok", name, "assign", ["t/0"])]


def judged(*operations: tuple[Any, ...]) -> Verdict:
    return check(history(*operations))


@pytest.mark.parametrize("end", ["unknown", "none"])
def test_an_unknown_write_may_be_there_or_not_but_once(end: str) -> None:
    before, after = send("a", end), send("b", process="q")
    assert not judged(SETUP, *before, *after, final("source", "b")).faults()
    assert not judged(SETUP, *before, *after, final("source", "b", "a")).faults()
    assert judged(SETUP, *before, *after, final("source", "a", "b", "a")).faults() == {"duplicate": 1}


def test_what_was_sent_again_stands_where_it_was_first_wherever_a_reader_has_begun() -> None:
    setup = ("ok", "control", "setup", {"home": "source", "topics": {"t": {"preserve": True}}})
    again = ("ok", "control", "resent", {"t/0": ["a"]})
    behind = [("ok", "c", "open", {"side": "target"}), *poll((2, "a"))]
    sent = [*send("a", "unknown"), *send("b", process="q")]
    logs = [final("source", "a", "b"), final("target", "a", "b", "a")]
    assert not judged(setup, again, *sent, *behind, *logs).faults()
    assert judged(setup, *sent, *behind, *logs).faults()["duplicate"] == 1


def test_what_was_sent_again_makes_no_gap_of_what_came_before_it() -> None:
    again = ("ok", "control", "resent", {"t/0": ["a"]})
    cutover = [(kind, "control", "cutover", {"keys": ["t/0"], "to": "target"}) for kind in ("invoke", "ok")]
    sent = [*send("a", "unknown"), *cutover, *send("b", process="q")]
    logs = [final("source", "a"), final("target", "a", "b", "a")]
    assert not judged(SETUP, again, *sent, *logs).faults()


def test_a_failed_write_must_not_be_there() -> None:
    assert not judged(SETUP, *send("a", "fail"), final("source")).faults()
    assert judged(SETUP, *send("a", "fail"), final("source", "a")).faults() == {"aborted-read": 1}


def test_an_acknowledged_write_is_lost_only_if_something_later_was_read() -> None:
    sent = [*send("a", offset=0), *send("b", offset=1)]
    assert judged(*sent, *poll((1, "b"))).faults() == {"lost-write": 1}
    assert judged(*sent, *poll((0, "a"))).faults() == {"unseen": 1}
    assert not judged(*sent, *poll((0, "a"), (1, "b"))).faults()


def test_a_record_that_was_read_and_then_cut_off_is_lost() -> None:
    sent = [*send("a", offset=0), *send("b", offset=1)]
    cut = judged(SETUP, *sent, *poll((0, "a"), (1, "b")), final("source", "a"))
    assert cut.faults() == {"lost-write": 1}


def test_an_acknowledgement_that_names_another_offset() -> None:
    assert judged(*send("a", offset=7), *poll((0, "a"))).faults() == {"inconsistent-offsets": 1}


def test_a_reader_of_uncommitted_data_sees_aborted_records_and_says_nothing_of_gap() -> None:
    opened = ("ok", "c", "open", {"isolation": "read_uncommitted"})
    sent = [*send("a", offset=0), *send("x", "fail"), *send("b", offset=2)]
    seen = judged(opened, *sent, *poll((0, "a"), (1, "x"), (2, "b")), *poll((0, "a"), (2, "b"), process="d"))
    assert not seen.faults()


def test_what_retention_deleted_is_not_lost() -> None:
    log = {"side": "source", "key": "t/0", "start": 1, "end": 2, "records": [[1, "b"]]}
    sent = [*send("a", offset=0), *send("b", offset=1)]
    assert not judged(SETUP, *sent, *poll((0, "a")), ("ok", "control", "log", log)).faults()


def test_of_a_compacted_topic_nothing_is_missing() -> None:
    setup = ("ok", "control", "setup", {"home": "source", "topics": {"t": {"compacted": True}}})
    sent = [*send("a", offset=0), *send("b", offset=1), *send("c", offset=2)]
    gone = [*poll((0, "a"), (1, "b"), (2, "c")), *poll((0, "a"), (2, "c"), process="d"), final("target", "a", "c")]
    assert not judged(setup, *sent, *gone).faults()


def test_the_next_owner_goes_on_from_the_commit_or_from_one_that_may_have_been_taken() -> None:
    sent = [*send("a", offset=0), *send("b", offset=1), *send("c", offset=2)]
    first = [*member("m1"), *poll((0, "a"), process="m1"), *commit(1, "m1")]
    killed = [*poll((1, "b"), process="m1"), *commit(2, "m1", "none")]
    for records in ([(1, "b"), (2, "c")], [(2, "c")]):
        assert not judged(*sent, *first, *killed, *member("m2"), *poll(*records, process="m2")).faults()
    all_read = poll((0, "a"), (1, "b"), (2, "c"), process="m2")
    assert judged(*sent, *first, *killed, *member("m2"), *all_read).faults() == {"nonmonotonic-poll": 1}
    refused = [*poll((1, "b"), process="m1"), *commit(2, "m1", "fail")]
    skipped = judged(*sent, *first, *refused, *member("m2"), *poll((2, "c"), process="m2"))
    assert skipped.faults() == {"poll-skip": 1}


def test_a_member_that_hangs_behind_its_assignment_may_read_where_it_was_to_begin() -> None:
    sent = [*send("a", offset=0), *send("b", offset=1)]
    opened = ("ok", "m1", "open", {"side": "source", "group": "g", "reset": "earliest"})
    given = ("ok", "m1", "assign", ["t/0"])
    other = [*member("m2"), *poll((0, "a"), process="m2"), *commit(1, "m2")]
    read = poll((0, "a"), (1, "b"), process="m1")
    assert not judged(*sent, opened, given, *other, *read).faults()
    assert judged(*sent, opened, *other, given, *read).faults() == {"nonmonotonic-poll": 1}


def test_what_a_group_skips_before_any_gateway_is_told_and_no_fault() -> None:
    setup = ("ok", "control", "setup", {"home": "source", "direct": "source"})
    sent = [*send("a", offset=0), *send("b", offset=1), *send("c", offset=2)]
    again = [*poll((0, "a"), (1, "b"), process="m1"), *poll((1, "b"), (2, "c"), process="m1")]
    rest = [*poll((0, "a"), (1, "b"), (2, "c"), process="x"), final("source", "a", "b", "c")]
    before = judged(setup, *sent, *member("m1"), *again, *rest)
    assert not before.faults()
    assert before.counts["direct-poll"] == 1
    assert "direct-poll                  1 (allowed)  first: group g (m1) in t/0" in before.as_text()
    after = judged(setup, *sent, *member("m0", "target"), *member("m1"), *again, *rest)
    assert after.faults()["nonmonotonic-poll"] == 1


def test_a_group_goes_on_at_the_same_record_on_a_target_with_other_offsets() -> None:
    """The source has an offset gap at offset 1."""
    sent = [*send("a", offset=0), *send("b", offset=2), *send("c", offset=3)]
    before = [SETUP, *sent, *member("m1"), *poll((0, "a"), (2, "b"), process="m1"), *commit(3, "m1")]
    move = [("invoke", "control", "move", {"group": "g", "to": "target"})]
    moved = [*move, ("ok", "control", "move", {"group": "g", "to": "target"})]
    rest = [*poll((0, "a"), (2, "b"), (3, "c"), process="x"), final("target", "a", "b", "c")]
    right = judged(*before, *moved, *member("m2", "target"), *poll((2, "c"), process="m2"), *rest)
    assert not right.faults()
    rewound = poll((1, "b"), (2, "c"), process="m2")
    assert judged(*before, *moved, *member("m2", "target"), *rewound, *rest).faults() == {"nonmonotonic-poll": 1}
    refused = [*move, ("fail", "control", "move", {"group": "g", "to": "target"})]
    early = judged(*before, *refused, *member("m2", "target"), *poll((2, "c"), process="m2"), *rest)
    assert early.faults() == {"gated-read": 1}


def test_a_producer_that_may_reorder_is_not_judged_for_it() -> None:
    sent = [*send("a", offset=1), *send("b", offset=0), *poll((0, "b"), (1, "a"))]
    assert judged(*sent).faults() == {"nonmonotonic-send": 1}
    assert not judged(("ok", "p", "open", {"ordered": False}), *sent).faults()


def test_a_cutover_of_unknown_outcome_allows_both_sides() -> None:
    cutover = ("invoke", "control", "cutover", {"keys": ["t/0"], "to": "target"})
    unknown = judged(SETUP, *send("a"), cutover, *send("b"), final("source", "a"), final("target", "a", "b"))
    assert not unknown.faults()
    none = judged(SETUP, *send("a"), *send("b"), final("source", "a"), final("target", "a", "b"))
    assert set(none.faults()) == {"split-write", "lost-write"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], "line 1"),
        (["[]"], "line 1"),
        (history(("ok", "p", "send", [])), "not invoked"),
        (history(*send("a", "none"), *send("b", "none")), "give it an id"),
        (history(*send("a"), *send("a")), "sent to t/0 before"),
        (history(("invoke", "p", "walk", [])), "unknown operation"),
        (history(("invoke", "p", "send", [["send"]])), "line 1"),
    ],
)
def test_a_history_of_another_form_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(HistoryError, match=message):
        check(lines)


def test_the_pieces_of_a_final_log_join_up() -> None:
    pieces = [{"side": "source", "key": "t/0", "start": s, "end": e, "records": []} for s, e in ((0, 2), (3, 4))]
    with pytest.raises(HistoryError, match="an offset gap from 2 to 3"):
        judged(SETUP, *(("ok", "control", "log", piece) for piece in pieces))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, verdict = tmp_path / "history.jsonl", tmp_path / "verdict.json"
    path.write_text("\n".join(history(*send("a", offset=0), *poll((0, "a"), (1, "x")))))
    assert main([str(path), "--json", str(verdict)]) == 1
    out = capsys.readouterr().out
    assert "never-written                1  first: 'x' of t/0" in out
    assert out.splitlines()[-1] == "checker: INVALID never-written"
    assert json.loads(verdict.read_text())["classes"]["never-written"]["count"] == 1
    assert main([str(path), "--allow", "never-written"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "checker: VALID"
    path.write_text("no history")
    assert main([str(path)]) == 2
    assert "line 1" in capsys.readouterr().err


def test_merge_goes_by_time_and_drops_a_torn_line(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text('{"time":1}\n{"time":4}\n{"ti')
    other.write_text('{"time":2}\n{"time":3}\n')
    assert [json.loads(line)["time"] for line in merge([one, other])] == [1, 2, 3, 4]
