"""What clients can cause to be logged has a rate, also when they have logged in: no request writes a line each."""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

import gateway
from gateway.telemetry.log_rates import BURST, STRANGERS
from gateway.telemetry.logs import configure
from protocol.codec import encode_request
from protocol.messages import HeartbeatRequest
from tests.support.proxy.conversation import Conversation


@pytest.fixture
def configured() -> Iterator[None]:
    """What a test sets up is put back."""
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.configure(**before)
    root.handlers[:], root.level = handlers, level


@pytest.mark.usefixtures("configured")
async def test_names_of_our_own_are_told_of_twenty_times(
    talk: Conversation, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("info", "json")
    for number in range(200):
        message = HeartbeatRequest(group_id=f"__lockgate.{number}", generation_id=1, member_id="m")
        talk.says(encode_request(message, 2, number, "me"))
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    told = [json.loads(line)["event"] for line in lines]
    assert 0 < len(told) <= BURST
    assert len(talk.client.frames()) == 200


def test_every_logger_of_the_data_plane_has_a_rate() -> None:
    """Whatever is logged there, a client can cause; a text that is made of what it says would be another event each."""
    for path in Path(gateway.__path__[0], "proxy").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in ("get_logger", "getLogger"):
                name = node.args[0]
                assert isinstance(name, ast.Constant), path
                assert any(str(name.value).split(".")[:2] == each.split(".")[:2] for each in STRANGERS), path
            if ast.unparse(node.func) in ("_log.info", "_log.warning", "_log.error", "_log.exception"):
                said = node.args[0]
                fixed = isinstance(said, ast.Constant) or ast.unparse(said).startswith("f'a client is not accepted")
                assert fixed, f"{path}:{node.lineno}"
