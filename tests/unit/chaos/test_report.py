from __future__ import annotations

import json
from typing import Any

from tests.chaos.handover import handovers, percentile, waits
from tests.chaos.report import Report
from tests.chaos.watch import leaks
from tests.checker.verdict import Findings, Verdict


def verdict(*found: tuple[str, str]) -> Verdict:
    findings = Findings()
    for name, example in found:
        findings.add(name, example)
    operations = {"ok": 5, "fail": 1, "unknown": 1}
    return Verdict(
        operations=operations, records=4, nemeses=2, counts=findings.counts, examples=dict(findings.examples)
    )


def test_the_last_line_of_a_run_that_passed():
    report = Report(verdict=verdict(), faults=2, migrations=3, handover_p99_ms=187.4)

    assert report.passed
    assert report.last_line() == (
        "chaos: PASS ops=7 faults=2 migrations=3 lost=0 duplicated=0 reordered=0 gated_reads=0 split_writes=0 "
        "handover_p99_ms=187"
    )


def test_a_fault_is_named_with_its_first_example():
    report = Report(verdict=verdict(("lost-write", "a"), ("lost-write", "b"), ("poll-skip", "c")))

    assert not report.passed
    assert report.last_line().startswith("chaos: FAIL ops=7 ")
    assert " lost=2 " in report.last_line()
    assert report.last_line().endswith(" lost-write: a also: poll-skip")


def test_a_run_that_did_not_come_to_its_end_failed():
    assert (
        Report(verdict=verdict(), broken="promote plain:\n it waits").last_line().endswith(" promote plain: it waits")
    )
    assert Report().last_line().startswith("chaos: FAIL ops=0 ")


def line(kind: str, process: str, f: str, at: int, value: Any) -> str:
    return json.dumps({"type": kind, "process": process, "f": f, "time": at, "value": value})


def test_a_handover_is_the_longest_wait_around_the_end_of_a_gateway():
    second = 10**9
    lines = [
        line("ok", "p", "send", 10 * second, [["send", "t/0", [1, "a"]]]),
        line("ok", "reader-target.1", "poll", 10 * second + 5_000_000, [["poll", {"t/0": [[1, "a"]]}]]),
        line("ok", "p", "send", 20 * second, [["send", "t/0", [2, "b"]]]),
        line("ok", "other.1", "poll", 20 * second, [["poll", {"t/0": [[2, "b"]]}]]),
        line("ok", "reader-target.1", "poll", 20 * second + 700_000_000, [["poll", {"t/0": [[2, "b"]]}]]),
    ]
    waited = waits(lines, "reader-target")
    killed = {"kind": "gateway-kill", "began_s": 20.0, "ended_s": 22.0}
    cut = {"kind": "cut-source", "began_s": 21.0, "ended_s": 23.0}

    assert handovers(waited, [killed], 0) == [700.0]
    assert handovers(waited, [killed, cut], 0) == []  # nobody can tell which of them it was
    assert handovers(waited, [cut], 0) == []


def test_a_gateway_that_grows_is_told():
    row = {"gateway": 1, "life": 2, "from_s": 0.0, "to_s": 400.0, "rss_mb": [90, 100], "fds": [80, 82], "tasks": None}

    assert leaks([row]) == ""
    assert leaks([{**row, "rss_mb": [90, 190], "to_s": 200.0}]) == ""  # too short to tell
    assert leaks([row, {**row, "fds": [80, 400]}]) == "gateway 1 grows: fds 80 early, 400 late in its life 2"


def test_percentile():
    assert percentile([], 0.99) == 0
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3
    assert percentile(list(range(200)), 0.99) == 198
