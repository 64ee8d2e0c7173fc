"""The last line and the JSON report."""

from __future__ import annotations

import json
from pathlib import Path

from demo.history import ClientError
from demo.report import last_line, write_report
from demo.settings import Settings
from demo.view import Step
from tests.unit.demo.scene import Scene


def test_the_last_line_of_a_pass() -> None:
    line = last_line(Settings(), Scene().judge(), "")
    assert line == (
        "demo: PASS lost=0 duplicated=0 reordered=0 missed=0 reread=0 offsets_equal=true"
        " promote_gap_ms=20 group_switch_ms=10"
    )


def test_the_last_line_of_a_fault() -> None:
    scene = Scene()
    del scene.target[0][0]
    line = last_line(Settings(), scene.judge(), "")
    assert line.startswith("demo: FAIL lost=1 duplicated=0 reordered=0 missed=0 reread=0 offsets_equal=false ")


def test_a_client_error_fails_though_every_count_is_right() -> None:
    scene = Scene()
    scene.history.errors.append(ClientError("one", 1, "timed out"))
    assert last_line(Settings(), scene.judge(), "").startswith("demo: FAIL lost=0")


def test_the_last_line_of_a_run_that_did_not_come_to_its_end() -> None:
    assert last_line(Settings(), None, "Start the gateway: it ended") == "demo: FAIL Start the gateway: it ended"


def test_the_report_holds_steps_verdict_and_settings(tmp_path: Path) -> None:
    path = tmp_path / "build" / "demo.json"
    steps = [Step("Start the clusters", 0.0, 3.25, "two", "done")]
    write_report(path, Settings(), steps, Scene().judge(), "")
    report = json.loads(path.read_text())
    assert report["result"] == "PASS"
    assert report["steps"] == [{"title": "Start the clusters", "seconds": 3.25, "state": "done", "note": "two"}]
    assert report["verdict"]["lost"] == 0
    assert report["verdict"]["groups"]["readers"]["switch_ms"] == 10
    assert report["settings"]["partitions"] == 6


def test_the_report_of_a_run_that_did_not_come_to_its_end(tmp_path: Path) -> None:
    write_report(tmp_path / "demo.json", Settings(), [], None, "interrupted")
    report = json.loads((tmp_path / "demo.json").read_text())
    assert (report["result"], report["failure"], report["verdict"]) == ("FAIL", "interrupted", None)
