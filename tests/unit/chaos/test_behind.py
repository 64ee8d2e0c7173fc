"""What a red run shows beside its verdict."""

import json

from tests.chaos.behind import behind
from tests.checker.check import check


def _line(kind: str, process: str, f: str, value: object) -> str:
    return json.dumps({"type": kind, "process": process, "f": f, "value": value, "time": 7})


def test_a_finding_is_shown_with_what_its_readers_did() -> None:
    read = {"t/0": [[0, "a"], [1, "b"]]}
    history = [
        _line("invoke", "p", "send", [["send", "t/0", "a"]]),
        _line("ok", "p", "send", [["send", "t/0", [0, "a"]]]),
        _line("ok", "g-0.1", "open", {"side": "source", "group": "g"}),
        _line("ok", "g-0.1", "assign", ["t/0"]),
        _line("invoke", "g-0.1", "poll", [["poll"]]),
        _line("ok", "g-0.1", "poll", [["poll", read]]),
        _line("invoke", "g-0.1", "commit", {"t/0": 2}),
        _line("ok", "g-0.1", "commit", {"t/0": 2}),
        _line("ok", "g-1.1", "open", {"side": "source", "group": "g"}),
        _line("ok", "g-1.1", "assign", ["t/0"]),
        _line("invoke", "g-1.1", "poll", [["poll"]]),
        _line("ok", "g-1.1", "poll", [["poll", read]]),
    ]
    verdict = check(history)
    assert set(verdict.faults()) >= {"nonmonotonic-poll"}
    told = "\n".join(behind(verdict, history))
    assert "behind nonmonotonic-poll" in told
    assert "8 7 g-0.1 ok commit t/0 2" in told
    assert "12 7 g-1.1 ok poll t/0 [0, 'a'] to [1, 'b']" in told
    assert "send" not in told
