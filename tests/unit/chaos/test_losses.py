from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.cast import SETS, groups_of
from tests.chaos.losses import LOSSES, LOSSES_FROM, Cut, cut_tail, with_losses
from tests.chaos.plan import SOURCES, Plan, plan


def made(seed: int, duration_s: float = 60, gateways: int = 3) -> Plan:
    return plan(seed, duration_s, gateways, tuple(SETS), groups_of(SOURCES[-1]))


def test_earlier_seeds_and_single_gateways_lose_nothing():
    assert with_losses(made(LOSSES_FROM - 1)) == made(LOSSES_FROM - 1)
    assert with_losses(made(LOSSES_FROM, gateways=1)) == made(LOSSES_FROM, gateways=1)


@pytest.mark.parametrize("seed", range(LOSSES_FROM, LOSSES_FROM + 20))
def test_a_minute_has_a_loss_and_all_else_stays(seed: int):
    before, after = made(seed), with_losses(made(seed))
    assert after == with_losses(made(seed))
    assert after.acts == before.acts
    assert [n.number for n in after.nemeses] == [n.number for n in before.nemeses]
    assert "state-lost" in {n.kind for n in after.nemeses}
    others = [(one, two) for one, two in zip(before.nemeses, after.nemeses, strict=True) if two.kind not in LOSSES]
    assert all(one == two for one, two in others)


def test_each_topic_is_lost_with_and_without_a_gateway_that_is_killed():
    losses = [n for n in with_losses(made(LOSSES_FROM, 1800)).nemeses if n.kind in LOSSES]
    assert {(n.kind, n.gateway < 0) for n in losses} == {(kind, kept) for kind in LOSSES for kept in (True, False)}
    two = with_losses(made(LOSSES_FROM, 1800, 2)).nemeses
    assert {n.gateway for n in two if n.kind in LOSSES} == {-1}, "nobody may be left who remembers"


def test_what_is_left_out_changes_nothing_else():
    whole, part = (with_losses(made(LOSSES_FROM, 600), frozenset(one)) for one in ((), ("state-lost",)))
    assert [n for n in whole.nemeses if n.kind != "state-lost"] == list(part.nemeses)
    calm = with_losses(made(LOSSES_FROM, 600), frozenset(("gateway-kill",)))
    assert {n.gateway for n in calm.nemeses if n.kind in LOSSES} == {-1}


def batch(base: int, size: int) -> bytes:
    return base.to_bytes(8) + size.to_bytes(4) + b"x" * size


@pytest.mark.parametrize(("batches", "left", "cut"), [(2, 1, Cut(2, 15)), (9, 1, Cut(2, 15)), (1, 2, Cut(1, 17))])
def test_the_tail_goes_with_what_was_said_of_it(tmp_path: Path, batches: int, left: int, cut: Cut):
    segments = {name: tmp_path / f"{name:020}.log" for name in (0, 10, 20)}
    segments[0].write_bytes(batch(0, 40))
    whole = [batch(10, 61), batch(15, 90), batch(17, 70)]
    segments[10].write_bytes(b"".join(whole))
    segments[20].write_bytes(b"")
    for stale in ("00000000000000000010.index", "00000000000000000010.snapshot", "00000000000000000020.snapshot"):
        (tmp_path / stale).touch()

    assert cut_tail(tmp_path, batches) == cut
    assert segments[10].read_bytes() == b"".join(whole[:left])
    assert segments[0].stat().st_size == 52
    assert [path.name for path in tmp_path.glob("*.snapshot")] == ["00000000000000000010.snapshot"]
    assert not list(tmp_path.glob("*.index"))


def test_a_log_of_one_batch_keeps_it(tmp_path: Path):
    (tmp_path / f"{0:020}.log").write_bytes(batch(0, 61))
    assert cut_tail(tmp_path, 3) == Cut(0, -1)
    assert cut_tail(tmp_path / "none", 3) == Cut(0, -1)
