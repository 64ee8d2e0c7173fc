"""How a gateway of a chaos run ends, whoever else ends and starts it at that time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL

import pytest

from tests.chaos.gateways import GatewayNode
from tests.chaos.seeds import Seeds


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GatewayNode]:
    """Its process sleeps, and knows no signal."""
    run = subprocess.Popen
    program = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr("tests.chaos.gateways.subprocess.Popen", lambda _command, **keywords: run(program, **keywords))
    made = GatewayNode(0, tmp_path, [1, 2, 3, 4], "nowhere:1", Seeds(tmp_path), alone=True)
    yield made
    made.kill()


def test_one_that_serves_must_end_in_order(node: GatewayNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "healthy", lambda: True)
    node.wait_up()
    assert node.stop() == -15


def test_one_that_another_lane_has_just_begun_owes_no_order(node: GatewayNode) -> None:
    node.start()
    assert node.stop() == 0


def test_one_that_another_lane_has_ended_is_ended(node: GatewayNode) -> None:
    node.start()
    node.kill()
    assert node.stop() == 0


def test_one_that_was_killed_meanwhile_says_so(node: GatewayNode) -> None:
    node.start()
    node.signal(SIGKILL)
    assert node.stop() == -SIGKILL
