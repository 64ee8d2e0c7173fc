"""What an attack may cost an honest client, and what the bench of strangers says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.clients.raw import batch_around
from bench.strangers.figures import Cost, last_line, stalls_in
from bench.strangers.strangers import _record
from protocol.batch.header import crc_is_valid, iter_batches

FELT = {"asked_p99_ms": 10.0, "written_p99_ms": 20.0, "lost": 0, "errors": []}
GOOD = Cost("half_open", FELT, {**FELT, "written_p99_ms": 40.0}, memory_mb=10, log_kb_s=1, stalls=0)


def test_a_cheap_attack_passes() -> None:
    assert last_line([GOOD], []) == (
        "strangers: PASS attacks=1 worst_p99_x=2.00 memory_mb=10 log_kb_s=1.0 stalls=0 late_heartbeats=0"
    )


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (replace(GOOD, beside={**FELT, "asked_p99_ms": 31.0}), "p99 is 3.1 times its own"),
        (replace(GOOD, memory_mb=129), "129 MB"),
        (replace(GOOD, log_kb_s=5.1), "5.1 KB/s"),
        (replace(GOOD, stalls=1), "stood still 1 times"),
        (replace(GOOD, beside={**FELT, "lost": 1}), "heartbeats late"),
        (replace(GOOD, beside={**FELT, "errors": ["broken"]}), "was told broken"),
    ],
)
def test_whatever_costs_more_fails_with_the_reason(bad: Cost, told: str) -> None:
    (trouble,) = bad.troubles()
    assert told in trouble
    assert last_line([GOOD, bad], []).startswith("strangers: FAIL attacks=2")


def test_what_could_not_be_measured_is_no_pass() -> None:
    assert last_line([], []).startswith("strangers: FAIL")
    assert last_line([GOOD], ["interrupted"]).startswith("strangers: FAIL")


def test_what_a_machine_does_by_itself_is_no_attack() -> None:
    quick = replace(GOOD, before={**FELT, "asked_p99_ms": 1.0}, beside={**FELT, "asked_p99_ms": 4.0})
    assert quick.p99_x == 1.0


def test_stalls_are_those_in_which_the_loop_had_the_cpu() -> None:
    name = "lockgate_event_loop_stalls_total"
    page = f'# TYPE {name} counter\n{name}{{cause="mirror"}} 2.0\n{name}{{cause="not_scheduled"}} 7.0\n'
    assert stalls_in(page) == 2


def test_a_bomb_is_a_sound_batch() -> None:
    ((header, batch),) = iter_batches(memoryview(batch_around(_record(0, bytes(9_000)), 1)))
    assert header.count == 1
    assert crc_is_valid(batch, header)
