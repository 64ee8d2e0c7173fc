"""The hole of a cutover whose record had wrong ends: the mirror of the next way begins too far on, without any error.

The topic is translated. It was promoted, mirrored back and brought home; what was written on the source from then on up
to the wrong place is never copied. And its producer table was lost: a retry over the cutover was appended once more.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.checker.check import check
from tests.checker.verdict import Verdict

Line = dict[str, Any]
BEFORE = ["a0", "a1"]  # on the source, before the promote
AWAY = ["b0", "b1"]  # on the target, mirrored back
HOME = ["c0", "c1", "c2"]  # on the source again
KEY = "tx/0"


def ok(what: str, value: Any, process: str = "control") -> Line:
    return {"type": "ok", "process": process, "f": what, "value": value}


def send(value: str) -> list[Line]:
    begun = {"type": "invoke", "process": "p", "f": "send", "value": [["send", KEY, value]]}
    return [begun, ok("send", [["send", KEY, [None, value]]], "p")]


def cutover(to: str) -> list[Line]:
    value = {"keys": [KEY], "to": to}
    return [{"type": "invoke", "process": "control", "f": "cutover", "value": value}, ok("cutover", value)]


def log(side: str, values: list[str], *, gaps: int) -> Line:
    """A log with markers between the records: offsets differ between the clusters."""
    records = [[(gaps + 1) * index, value] for index, value in enumerate(values)]
    return ok("log", {"side": side, "key": KEY, "start": 0, "end": (gaps + 1) * len(values), "records": records})


def run(source: list[str], target: list[str], *, level: str = "FORWARD", last: str = "source") -> Verdict:
    """A history whose clients heard of nothing; the logs are what the two clusters have at its end."""
    setup = {"home": "source", "topics": {"tx": {"preserve": False}}}
    lines = [ok("setup", setup), *(line for value in BEFORE for line in send(value)), *cutover("target")]
    lines += [line for value in AWAY for line in send(value)]
    lines += cutover("source") + [line for value in HOME for line in send(value)]
    lines += cutover("target") if last == "target" else []
    for side, values in (("source", source), ("target", target)):
        lines.append(ok("open", {"side": side}, f"reader {side}"))
        lines.append({"type": "invoke", "process": f"reader {side}", "f": "poll", "value": [["poll"]]})
        gaps = 1 if side == "source" else 0
        read = [[(gaps + 1) * index, value] for index, value in enumerate(values)]
        lines.append(ok("poll", [["poll", {KEY: read}]], f"reader {side}"))
        lines.append(log(side, values, gaps=gaps))
    if level:
        lines.append(ok("mirrored", {KEY: {"from": "source", "to": "target"}}))
    return check([json.dumps(line) for line in lines])


ALL = BEFORE + AWAY + HOME


def test_nothing_is_wrong_with_a_topic_that_is_level() -> None:
    assert run(ALL, ALL).faults() == {}


def test_what_is_left_out_and_followed_by_what_is_copied() -> None:
    assert run(ALL, [*BEFORE, *AWAY, "c2"]).faults() == {"divergence": 2}


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_what_is_left_out_at_the_end_of_the_run(missing: int) -> None:
    """Nothing that was copied follows: only what the mirror says of itself tells it from a mirror that is behind."""
    assert run(ALL, ALL[:-missing]).faults() == {"divergence": missing}
    assert run(ALL, ALL[:-missing], level="").faults() == {}


def test_what_is_left_out_before_the_next_promote_is_lost() -> None:
    assert "lost-write" in run(ALL, ALL[:-1], level="", last="target").faults()


def test_a_copy_without_anything_is_not_level() -> None:
    assert run(ALL, []).faults()["divergence"] == len(ALL)
    assert run(ALL, ALL[2:]).faults() == {"divergence": 2}


def test_a_retry_over_the_cutover_that_was_appended_once_more() -> None:
    """The source took it before the cutover, the mirror has copied it, and the target took the retry for something
    new."""
    twice = [*BEFORE, BEFORE[-1], *AWAY, *HOME]
    assert set(run(ALL, twice).faults()) == {"duplicate"}
    assert set(run(twice, twice).faults()) == {"duplicate"}  # mirrored back, too
