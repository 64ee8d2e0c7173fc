"""Grafana's boards: made from their rows, of metrics and labels that there are."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.support.deploy.boards import BOARDS, Board, file_of, text
from tests.support.deploy.chart import tool
from tests.support.pages.metrics_page import families, shown_name

PROMTOOL: Final = tool("promtool")
OF_PYTHON: Final = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"}
OF_PROMETHEUS: Final = {"instance", "job"}
EACH: Final = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)


def labels() -> dict[str, set[str]]:
    """Labels by metric, with the names that histograms are asked by."""
    found = {}
    for family in families():
        own = {label for sample in family.samples for label in sample.labels}
        name = shown_name(family)
        found[f"{name}_bucket" if family.type == "histogram" else name] = own
    return found


def queries(board: Board) -> list[str]:
    return [expr for panels in board.rows.values() for panel in panels for expr in panel.queries]


@EACH
def test_a_board_is_made_from_its_rows(board: Board) -> None:
    assert file_of(board).read_text(encoding="utf-8") == text(board), "python -m tests.support.deploy.boards"


@EACH
def test_panels_ask_for_metrics_that_there_are(board: Board) -> None:
    there = set(labels()) | OF_PYTHON
    for expr in queries(board):
        asked = set(re.findall(r"\b(?:lockgate|process)_[a-z_]+", expr))
        assert asked, expr
        assert asked - there == set(), expr
    assert set(board.variables.values()) <= there


@EACH
def test_panels_ask_for_labels_that_there_are(board: Board) -> None:
    there = labels()
    for expr in queries(board):
        (name, *_) = re.findall(r"\b(?:lockgate|process)_[a-z_]+", expr)
        asked = {label for by in re.findall(r"by \(([^)]*)\)", expr) for label in by.split(", ")}
        asked |= set(re.findall(r'([a-z]+)=~"', expr))
        assert asked - there.get(name, set()) - OF_PROMETHEUS == set(), expr


@EACH
def test_legends_name_labels_that_are_kept(board: Board) -> None:
    for panels in board.rows.values():
        for panel in panels:
            for expr, legend in panel.queries.items():
                by = re.search(r"by \(([^)]*)\)", expr)
                kept = set(by[1].split(", ")) if by else OF_PROMETHEUS
                assert set(re.findall(r"{{(\w+)}}", legend)) <= kept, (panel.title, expr)


@EACH
def test_panels_lie_beside_one_another(board: Board) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(text(board))["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not there: Debian's package prometheus has it")
@EACH
def test_prometheus_reads_each_query(board: Board, tmp_path: Path) -> None:
    rules = [{"record": "board:query", "expr": expr.replace("$__rate_interval", "5m")} for expr in queries(board)]
    for index, rule in enumerate(rules):
        rule["record"] += f":{index}"
    file = tmp_path / "board.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run([str(PROMTOOL), "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
