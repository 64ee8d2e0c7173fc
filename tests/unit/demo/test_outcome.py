"""How a demo ends: its last line, its report and its exit code say the same."""

from __future__ import annotations

import argparse
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rich.console import Console

from demo.outcome import add_options, chosen, end
from demo.view import View


@dataclass(frozen=True, kw_only=True)
class Settings:
    rate: float = 10.0
    traffic_s: float = 2.0
    folder: Path = Path("data")
    report: Path = Path("report.json")
    keep_data: bool = False


@dataclass(frozen=True, kw_only=True)
class Verdict:
    passed: bool = True
    counts: str = "lost=0"
    examples: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


BAD = Verdict(passed=False, counts="lost=1", examples=("lost: one",), errors=tuple(f"error {n}" for n in range(12)))


@pytest.mark.parametrize(
    ("verdict", "failure", "code", "last"),
    [
        (Verdict(), "", 0, "demo-x: PASS lost=0"),
        (BAD, "", 1, "demo-x: FAIL lost=1"),
        (Verdict(), "a broker ended", 1, "demo-x: FAIL lost=0"),
        (None, "a broker ended", 1, "demo-x: FAIL a broker ended"),
    ],
)
def test_report_last_line_and_exit_code_agree(
    verdict: Verdict | None, failure: str, code: int, last: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = replace(Settings(), report=tmp_path / "report.json")
    shown = Console(record=True, file=io.StringIO())
    assert end("demo-x", settings, View(shown, "x"), verdict, failure) == code
    assert capsys.readouterr().out.splitlines() == [last]
    report = json.loads(settings.report.read_text(encoding="utf-8"))
    assert (report["result"], report["failure"]) == ("FAIL" if code else "PASS", failure)
    assert report["faults"] == ([] if verdict is None else [*verdict.examples, *verdict.errors])
    lines = shown.export_text().splitlines()
    assert lines == [f"   {line}" for line in (verdict.examples + verdict.errors[:10] if verdict else ())]


def test_options_fill_the_settings() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, Settings())
    assert Settings(**chosen(parser.parse_args([]))) == replace(
        Settings(), folder=Path("data").absolute(), report=Path("report.json").absolute()
    )
    args = parser.parse_args(["--rate", "7", "--traffic", "1", "--folder", "/f", "--report", "/r", "--keep-data"])
    assert Settings(**chosen(args)) == Settings(
        rate=7.0, traffic_s=1.0, folder=Path("/f"), report=Path("/r"), keep_data=True
    )
