"""What an attack may cost an honest client, and what the bench of strangers says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.clients.raw import batch_around
from bench.strangers.burn import owed_s
from bench.strangers.figures import Cost, last_line, stalls_in
from bench.strangers.strangers import _record
from protocol.batch.header import crc_is_valid, iter_batches

FELT = {"asked_p99_ms": 10.0, "written_p99_ms": 20.0, "lost": 0, "errors": []}
GOOD = Cost("half_open", FELT, {**FELT, "written_p99_ms": 40.0}, memory_mb=10, log_kb_s=1, stalls=0)


def test_a_cheap_attack_passes() -> None:
    assert last_line([GOOD], []) == (
        "strangers: PASS attacks=1 worst_p99_x=2.00 with_machine_x=2.00 memory_mb=10 log_kb_s=1.0 stalls=0 "
        "late_heartbeats=0"
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


def test_what_the_machine_gives_the_attacker_is_not_the_gateways() -> None:
    slow = replace(GOOD, beside={**FELT, "asked_p99_ms": 40.0, "written_p99_ms": 70.0}, attack_cores=0.3)
    assert slow.wants_control
    starved = replace(slow, control={**FELT, "asked_p99_ms": 30.0, "written_p99_ms": 35.0})
    assert starved.p99_x == 4.0
    assert starved.gateway_x == 2.0
    assert not list(starved.troubles())
    assert "worst_p99_x=2.00 with_machine_x=4.00" in last_line([starved], [])
    (trouble,) = replace(slow, control={**FELT, "asked_p99_ms": 11.0}).troubles()
    assert "3.6 times its own under the same load" in trouble


def test_a_quick_control_does_not_count_against_the_gateway() -> None:
    bad = replace(GOOD, beside={**FELT, "asked_p99_ms": 40.0}, control={**FELT, "asked_p99_ms": 2.0})
    assert bad.gateway_x == bad.p99_x == 4.0


def test_brokers_do_in_the_control_what_they_do_beside_the_attack() -> None:
    cores = {"gateway": (0.3, 0.9), "source": (0.4, 0.2), "target": (0.25, 0.5)}
    assert replace(GOOD, cores=cores).others_cores == 0.25


def test_what_is_burned_is_what_was_taken() -> None:
    assert owed_s(0.5, 10.0, 4.99) == pytest.approx(0.01)
    assert owed_s(0.5, 10.0, 5.5) < 0
    assert owed_s(0.5, 10.0, 1.0) == 0.05


def test_stalls_are_those_in_which_the_loop_had_the_cpu() -> None:
    name = "lockgate_event_loop_stalls_total"
    page = f'# TYPE {name} counter\n{name}{{cause="mirror"}} 2.0\n{name}{{cause="not_scheduled"}} 7.0\n'
    assert stalls_in(page) == 2


def test_a_bomb_is_a_sound_batch() -> None:
    ((header, batch),) = iter_batches(memoryview(batch_around(_record(0, bytes(9_000)), 1)))
    assert header.count == 1
    assert crc_is_valid(batch, header)
