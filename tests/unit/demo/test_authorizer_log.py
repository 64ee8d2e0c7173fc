"""Lines as StandardAuthorizer writes them (copied from brokers of Kafka 3.9.1 and 4.3.1)."""

from datetime import datetime

import pytest

from demo.secure.authorizer_log import Decision, decisions

LINE = (
    "[2026-11-23 14:00:01,250] {level} Principal = User:{who} is {verdict} operation = {operation}"
    " from host = 127.0.0.1 on resource = {resource} for request = {request}"
    " with resourceRefCount = 1 based on rule DefaultDeny"
    " (kafka.authorizer.logger)"
)
AT_MS = int(datetime(2026, 11, 23, 14, 0, 1, 250_000).astimezone().timestamp() * 1000)


def line(who: str, verdict: str, operation: str, resource: str, request: str) -> str:
    level = "DEBUG" if verdict == "Allowed" else "INFO"
    return LINE.format(level=level, who=who, verdict=verdict, operation=operation, resource=resource, request=request)


@pytest.mark.parametrize(("verdict", "allowed"), [("Allowed", True), ("Denied", False)])
def test_a_decision(verdict: str, allowed: bool) -> None:
    found = list(decisions([line("shop-java", verdict, "WRITE", "Topic:LITERAL:orders", "Produce")]))
    assert found == [Decision(AT_MS, "shop-java", allowed, "WRITE", "Topic orders", "Produce")]


def test_other_lines_are_passed_over() -> None:
    others = ["[2026-11-23 14:00:01,250] INFO [Broker id=1] operation = x (state)", "", "a stack trace"]
    assert not list(decisions([*others, "Principal = User:x is Allowed operation = WRITE"]))
