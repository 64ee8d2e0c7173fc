"""The page of results: a picture for what was measured, none for what was not, and the machine told as it was."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench.pictures import __main__ as page
from bench.pictures.bars import Group, bars
from bench.pictures.charts import of_production, of_proxies
from bench.stats import Spread

SVG = "{http://www.w3.org/2000/svg}"


def sample(load: str, contestant: str, **metrics: float) -> dict[str, Any]:
    return {"load": load, "round": 0, "contestant": contestant, "metrics": metrics, "load_average": 0.5}


def report(*samples: dict[str, Any], before: float = 0.1) -> dict[str, Any]:
    figure = {"title": "rate", "key": "rate", "unit": "", "reach": 1, "at_least": True}
    return {
        "began": "2026-11-24T10:00:00+00:00",
        "machine": {"processor": "P", "cores": 2, "memory_gb": 8.0, "kernel": "Linux"},
        "versions": {"commit": "abc", "source_kafka": "3.9.1", "target_kafka": "4.3.1", "python": "3.11"},
        "sizes": {"name": "full"},
        "load_averages": [before, 2.0],
        "failures": {"many": "10000 partitions: waited 300 s\nand more"},
        "figures": [figure | {"value": {"median": 2.0, "low": 1.5, "high": 3.0, "count": 2}}, figure | {"value": None}],
        "samples": list(samples),
    }


def test_a_picture_is_svg_with_a_bar_for_each() -> None:
    groups = [Group("<one>", {"gateway": Spread(2, 1, 3, 2), "mm2": Spread(4, 4, 4, 1)}, bound=3.0)]
    root = ET.fromstring(bars("a & b", "seconds", groups))
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert texts == ["a & b", "seconds", "lockgate", "MirrorMaker 2", "<one>", "2.00", "4.00"]
    widths = [float(each.get("width", "0")) for each in root.iter(f"{SVG}rect")][-2:]
    assert widths[1] == pytest.approx(2 * widths[0])
    assert len(list(root.iter(f"{SVG}path"))) == 2, "a spread, and the bound"


def test_only_what_was_measured_has_a_picture() -> None:
    some = report(
        sample("backlog-1x100-p6-lz4", "gateway", records_per_s=9.0, cpu_s_per_million=1.0),
        sample("backlog-1x100-p6-lz4", "mm2", records_per_s=3.0),
        sample("many-4000", "gateway", pause_ms=300.0),
    )
    found = {picture.name: picture.svg for picture in of_production(some)}
    assert list(found) == ["backlog-small-rate", "backlog-small-cpu", "many-pause"]
    assert "1 × 100 B, 6 part., lz4" in found["backlog-small-rate"]
    assert "4,000 partitions" in found["many-pause"]
    assert list(of_proxies(some)) == []


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    production = tmp_path / "production.json"
    production.write_text(json.dumps(report(sample("far", "0 ms", mb_per_s=9.0), before=7.0)))
    left_over = tmp_path / "pictures" / "gone.svg"
    left_over.parent.mkdir()
    left_over.write_text("")
    options = ["--production", str(production), "--proxies", str(tmp_path / "none"), "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["pictures", *options])
    assert page.main() == 0
    text = (tmp_path / "pictures.md").read_text(encoding="utf-8")
    assert "| rate | 2.00 (1.50–3.00) | ≥ 1 | reached |" in text
    assert "![far](pictures/far.svg)" in text
    assert "**busy**" in text
    assert "Not measured: many: 10000 partitions: waited 300 s" in text
    assert [each.name for each in left_over.parent.iterdir()] == ["far.svg"]


def test_without_a_report_there_is_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = str(tmp_path / "none")
    monkeypatch.setattr(sys, "argv", ["pictures", "--production", nowhere, "--proxies", nowhere, "--out", nowhere])
    assert page.main() == 1
    assert "run make bench-production" in capsys.readouterr().err
