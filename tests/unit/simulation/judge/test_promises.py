"""What gateways say of a copy against where its log ends when a leader is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorMode
from tests.simulation.judge.findings import Findings
from tests.simulation.judge.promises import judge_promises

MIRROR = mirror_producer_id(3, 14)
BACK = mirror_producer_id(3, 14, 1, reverse=True)
END = 40


def gateway(
    end: int, position: int | None, mode: MirrorMode = MirrorMode.PRESERVE, *, reverse: bool = False, up: bool = True
) -> Any:
    """One that says so of partition 0 of `t`."""
    record = SimpleNamespace(mode=mode, is_reverse=reverse)
    runner = SimpleNamespace(mirror=SimpleNamespace(translates=mode is MirrorMode.TRANSLATE))
    topic = SimpleNamespace(
        record=record, runners={0: runner}, status=lambda indexes: [SimpleNamespace(target_end=end) for _ in indexes]
    )
    engine = SimpleNamespace(link_mirrors=lambda: [SimpleNamespace(topics={"t": topic})])
    progress = SimpleNamespace(position=lambda name, index: position)
    inside = SimpleNamespace(_peering=SimpleNamespace(engine=engine), _progress=progress)
    return SimpleNamespace(name="gw", serves=up, gateway=inside)


def judged(*gateways: Any, producer_id: int = MIRROR, promised: int = END, is_gapless: bool = True) -> dict[str, int]:
    """When a new leader's log ends at END, and the former one had more."""
    findings = Findings()
    partition: Any = SimpleNamespace(topic=SimpleNamespace(name="t"), index=0)
    lost: Any = [SimpleNamespace(header=SimpleNamespace(base_offset=END, producer_id=producer_id))]
    judge_promises(gateways, partition, lost, promised, findings, 1.0, is_gapless=is_gapless)
    return findings.faults


def test_what_is_there_may_be_said() -> None:
    assert not judged(gateway(END, END), gateway(END - 5, None))


@pytest.mark.parametrize("said", [gateway(END + 1, END), gateway(END, END + 1)])
def test_what_was_on_the_leader_alone_may_not(said: Any) -> None:
    assert judged(gateway(END, END), said) == {"lost": 1}


def test_where_offsets_differ_the_position_is_the_sources_own() -> None:
    assert not judged(gateway(END, END + 9, MirrorMode.TRANSLATE))
    assert not judged(gateway(END, END, MirrorMode.TRANSLATE), gateway(0, END + 9))  # and it was heard elsewhere
    assert judged(gateway(END + 1, END + 9, MirrorMode.TRANSLATE)) == {"lost": 1}


def test_who_has_not_read_yet_that_offsets_differ_says_the_sources_own_position() -> None:
    assert not judged(gateway(0, END + 9), is_gapless=False)
    assert judged(gateway(END + 1, END + 9), is_gapless=False) == {"lost": 1}


def test_of_others_appends_nothing_was_said() -> None:
    said = gateway(END + 1, END + 1)
    assert not judged(said, producer_id=7)
    assert not judged(said, producer_id=BACK)
    assert not judged(gateway(END + 1, END + 1, reverse=True), gateway(END + 1, END + 1, up=False))


def test_what_was_acknowledged_and_is_lost_nobody_can_keep() -> None:
    assert not judged(gateway(END + 1, END + 1), promised=END + 1)
