"""Lists with the longest names and errors, at four widths and in a pipe: what decides is there, whole.

The answers are the API's own, in which names are made 249 characters long and what says why, 300.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gateway.cli import output
from gateway.cli.api import Api
from gateway.cli.main import app
from tests.support.fakes.fake_engine import status
from tests.unit.cli.conftest import Run
from tests.unit.cli.test_group import with_group
from tests.unit.cli.test_output import commands

WIDTHS = (80, 100, 120, 200, None)
NAME = "payments." + "orders-" * 34 + "xx"
ERROR = " ".join(itertools.islice(itertools.cycle(["the copy ended before its source, see lockgate mirror repair"]), 5))
SAID = ("error_message", "promote_error", "link_error", "reason_detail", "waits_for")

LISTS: Mapping[tuple[str, ...], tuple[Any, tuple[str, ...]]] = {
    ("link", "list"): (None, (NAME, "ACTIVE", ERROR)),
    ("link", "configuration", "list", "l"): (None, ("link.prefix",)),
    ("link", "task", "list", "l"): (
        {"data": [_task := {"task_name": "acl-sync", "state": "IN_ERROR", "state_time_ms": 1, "last_run_ms": 1}]},
        ("acl-sync", "IN_ERROR", ERROR),
    ),
    ("link", "schemas", "list", "l"): (
        {
            "next": "",
            "data": [
                {
                    "subject": NAME,
                    "promoted": False,
                    "versions": [
                        {
                            "version": 7,
                            "schema_id": 11,
                            "target_version": 7,
                            "target_schema_id": 12,
                            "own": True,
                            "deleted": True,
                        }
                    ],
                }
            ],
        },
        (NAME, "7", "11"),
    ),
    ("mirror", "list"): (None, (NAME, "FAILED", "41", ERROR, f"lockgate mirror repair {NAME} --link {NAME}")),
    ("mirror", "list", "--link", "l"): (None, (NAME, "FAILED", "41", ERROR)),
    ("mirror", "candidates", "--link", "l"): (None, (NAME, "AUTO_CREATE_OFF", ERROR)),
    ("mirror", "state-transition-error", "list", "orders", "--link", "l"): (
        {"data": [{"error_code": "CONFIGS_DIFFER", "error_message": ERROR}]},
        ("CONFIGS_DIFFER", ERROR),
    ),
    ("group", "list", "--link", "l"): (None, (NAME, "ACTIVE", ERROR)),
    ("gateway", "list"): (
        {
            "data": [
                {
                    "name": NAME,
                    "state": "lost",
                    "role": "node",
                    "leads": False,
                    "mirror_partitions": 3,
                    "admitted_ms": 1,
                    "lease_left_s": 60.0,
                }
            ]
        },
        (NAME, "lost", "promotes wait until it is back, or its lease is over in 1 min 0 s"),
    ),
    ("migration", "list"): (
        {"data": [{"migration": NAME, "state": "PAUSED", "link_name": NAME, "state_time_ms": 1, "applied_by": NAME}]},
        (NAME, "PAUSED"),
    ),
}
_task["errors"] = [{"error_code": "AUTHORIZATION_ERROR", "error_message": ERROR}]


def longest(answer: Any, key: str = "") -> Any:
    """An answer of the API with the longest names and errors in it."""
    if isinstance(answer, dict):
        if answer.get("mirror_topic_name") == "orders" and "mirror_status" in answer:
            answer |= {"mirror_status": "FAILED"}
        return {name: longest(value, name) for name, value in answer.items()}
    if isinstance(answer, list):
        return [longest(one) for one in answer]
    if key in SAID:
        return ERROR
    return NAME if answer in ("orders", "clicks", "l", "g") and key != "kind" else answer


@pytest.fixture
def lists(linked: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs a list as on a terminal of that width."""
    run("mirror", "create", "orders", "--link", "l")
    linked.plane.engine.numbers["l", "orders"] = [status(0, lag=41), status(1, lag=0)]
    with_group(linked)
    run("group", "create", "g", "--link", "l")
    real = Api._call

    def answer(api: Api, method: str, path: str, **more: Any) -> Any:
        return longest(real(api, method, path.replace(NAME, "l"), **more))

    def work(words: tuple[str, ...], width: int | None, *options: str, code: int = 0) -> str:
        made = LISTS[words][0]
        monkeypatch.setattr(output, "terminal_width", lambda: width)
        monkeypatch.setattr(Api, "_call", lambda api, method, path, **more: made or answer(api, method, path, **more))
        return run(*words, *options, code=code).stdout

    return work


def test_every_list_has_a_row() -> None:
    found = {path for path, _ in commands(app) if path[-1] in output.LISTS and path[0] != "dev"}
    assert {path for path in found if not any(row[: len(path)] == path for row in LISTS)} == set()


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_what_decides_is_there_and_whole(lists: Callable[..., str], words: tuple[str, ...]) -> None:
    for width in WIDTHS:
        shown = lists(words, width)
        flat = " ".join(shown.split())
        assert [part for part in LISTS[words][1] if part not in flat] == []
        assert "…" not in shown
        if width is not None:
            long = [line for line in shown.splitlines() if len(line) > width]
            assert [line for line in long if max(map(len, line.split())) <= width // 2] == []


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_in_a_pipe_a_row_is_a_line_and_names_go_alone(lists: Callable[..., str], words: tuple[str, ...]) -> None:
    every, wide = (lists(words, None, *options).splitlines() for options in ((), ("-o", "wide")))
    assert len(every) == len(wide)
    assert "left out" not in "".join(every)
    if every[0].startswith("Mirror topic"):
        assert every[1].startswith(f"{NAME}  FAILED")
    names = lists(words, 80, "-o", "name").splitlines()
    assert names
    assert all(len(name.split()) == 1 for name in names)


def test_lesser_columns_leave_first_and_are_named(lists: Callable[..., str]) -> None:
    words = ("mirror", "list", "--link", "l")
    narrow, broad = lists(words, 80).splitlines(), lists(words, 200).splitlines()
    assert narrow[0].split()[:5] == ["Mirror", "topic", "Status", "Lag", "Lag"]
    assert "Since" not in narrow[0]
    assert broad[0].split()[-1] == "Since"
    (told,) = (line for line in narrow if line.startswith("columns left out: "))
    assert "Since" in told
    assert told.endswith("; -o wide")
    assert not [line for line in broad if "left out" in line]


def test_columns_that_are_asked_for(lists: Callable[..., str], run: Run) -> None:
    words = ("mirror", "list")
    shown = lists(words, 80, "--columns", "status, LINK,error").splitlines()
    assert shown[0].split() == ["Status", "Link", "Error"]
    assert shown[1] == f"FAILED  {NAME}  {ERROR}"
    result = run(*words, "--columns", "stats", code=2)
    assert "--columns: there is no column 'stats' (did you mean 'status'?); there are mirror-topic, st" in result.stderr
    assert "go without -o json" in run(*words, "--sort", "lag", "-o", "json", code=2).stderr


def test_in_the_order_of_a_column(linked: Any, run: Run) -> None:
    linked.plane.source.add("audit", 1, 1)
    run("mirror", "create", "orders", "clicks", "audit", "--link", "l")
    linked.plane.engine.numbers["l", "orders"] = [status(0, lag=9, bytes_per_s=2e6)]
    linked.plane.engine.numbers["l", "clicks"] = [status(0, lag=10, bytes_per_s=900.0)]
    linked.plane.engine.numbers["l", "audit"] = [status(0, source_end=None, lag=None, lag_ms=None)]

    def names(*options: str) -> list[str]:
        return run("mirror", "list", "-o", "name", *options).stdout.split()

    assert names("--sort", "lag") == ["orders", "clicks", "audit"]
    assert names("--sort", "-lag") == ["clicks", "orders", "audit"]
    assert names("--sort", "-throughput")[0] == "orders"
    assert names("--sort", "-mirror-topic") == ["orders", "clicks", "audit"]
    assert "no column 'lags'" in run("mirror", "list", "--sort", "lags", code=2).stderr


def test_a_link_without_mirror_topics_has_no_names(linked: Any, run: Run) -> None:
    result = run("mirror", "list", "-o", "name")
    assert (result.stdout, result.stderr) == ("", "no mirror topics\n")


def test_facts_in_a_pipe_are_a_line_each(linked: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("mirror", "create", "orders", "--link", "l")
    real = Api._call
    monkeypatch.setattr(Api, "_call", lambda *given, **more: longest(real(*given, **more)))
    shown = run("mirror", "describe", "orders", "--link", "l").stdout.splitlines()
    assert any(line.startswith("Mirror topic  ") and line.endswith(NAME) for line in shown)
    assert any(line.startswith("Error  ") and line.endswith(ERROR) for line in shown)
