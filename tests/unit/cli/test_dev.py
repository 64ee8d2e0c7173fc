"""`lockgate dev cluster`: its table and its help, at any width."""

from __future__ import annotations

import pytest

from gateway.cli import dev, output
from gateway.devcluster.spec import ClusterStatus, NodeStatus
from tests.unit.cli.conftest import Run

LOG = "/a/folder/that/is/long/" + "x" * 120 + "/kafka.log"


def cluster(name: str) -> ClusterStatus:
    node = NodeStatus(
        node_id=1,
        pid=77,
        up=True,
        client_port=9092,
        internal_port=9093,
        controller_port=9094,
        proxied_port=None,
        advertised_port=None,
        log=LOG,
    )
    return ClusterStatus(name, "4.3.1", "id", "/folder", "127.0.0.1:9092", (node,))


@pytest.mark.parametrize("width", ["80", "120", "200"])
def test_names_states_and_ports_stay_and_logs_are_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    output.table(dev._COLUMNS, dev._rows([cluster("blue"), cluster("green")]), label=2)
    shown = capsys.readouterr().out
    for name in ("blue", "green"):
        assert [name, "1", "up", "9092"] in [line.split()[:4] for line in shown.splitlines()]
    assert "".join(shown.split()).count(LOG) == 2


def test_help_says_the_defaults(run: Run) -> None:
    shown = " ".join(run("dev", "cluster", "up", "-h").stdout.split())
    for default in ("(4.3.1)", "(1)", "(free ports)", "$LOCKGATE_DEV_HOME"):
        assert default in shown


@pytest.mark.parametrize("words", [["-h"], ["mirror", "promote", "-h"], ["dev", "cluster", "up", "-h"], ["job", "-h"]])
def test_a_flag_has_no_type(run: Run, words: list[str]) -> None:
    assert "<bool>" not in run(*words).stdout
