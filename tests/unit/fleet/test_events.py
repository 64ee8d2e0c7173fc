"""What a mirror tells comes to the leader until it is written down."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.fleet import events as module
from gateway.fleet.events import FleetEvents
from gateway.fleet.rules.mirror_news import FAILED, LOST, READABLE, TRANSLATED, MirrorNews
from gateway.kafka.connection.errors import NetError
from gateway.state.records import LostRecords, MirrorError, MirrorMode, MirrorRecord, MirrorState, PartitionStart
from tests.support.waiting import wait_until_async

RECORD = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1, starts=(PartitionStart(0, 0),) * 2)


class FakePeers:
    """`told`: (gateway, body). `away`: who does not answer."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.told: list[tuple[str, Mapping[str, Any]]] = []
        self.away: set[str] = set()

    async def ask(self, peer: str, _what: str, body: Mapping[str, Any], _timeout_s: float) -> Mapping[str, Any]:
        if peer in self.away:
            raise NetError(f"{peer} does not answer")
        self.told.append((peer, body))
        return {}


class Written:
    """In place of the control plane's: what it was told."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *values: self.seen.append((name, *values))


class Scene:
    """A gateway that follows leader `a`."""

    def __init__(self) -> None:
        self.peers = FakePeers()
        self.leader = "a"
        self.record: MirrorRecord | None = RECORD
        self.events = FleetEvents(
            self.peers,  # type: ignore[arg-type]
            lambda: self.leader,
            lambda: {} if self.record is None else {("l", "t"): self.record},
        )

    def leaders_told(self) -> list[str]:
        return [leader for leader, _ in self.peers.told]


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(module, "_AGAIN_S", 0.01)
    monkeypatch.setattr(module, "_UNWRITTEN_S", 0.02)
    made = Scene()
    made.events.start()
    yield made
    await made.events.close()


async def test_it_is_told_to_the_next_leader_when_the_one_before_has_not_written_it_down(scene: Scene) -> None:
    """Seed 1711 of the simulation: the leader heard of it, and was gone."""
    scene.events.topic_translated("l", "t", "markers")
    await wait_until_async(lambda: "a" in scene.leaders_told())
    scene.leader = "b"
    await wait_until_async(lambda: "b" in scene.leaders_told())
    scene.record = replace(RECORD, mode=MirrorMode.TRANSLATE)
    await wait_until_async(lambda: not scene.events._kept)
    assert scene.peers.told[0][1] == {"event": [TRANSLATED, "l", "t", "markers"], "tag": "1.0.to"}


async def test_a_leader_that_does_not_answer_is_asked_again(scene: Scene) -> None:
    scene.peers.away = {"a"}
    scene.events.topic_readable("l", "t")
    scene.peers.away = set()
    await wait_until_async(lambda: "a" in scene.leaders_told())


async def test_what_this_gateway_was_to_write_down_itself_is_told_when_it_leads_no_more(scene: Scene) -> None:
    own = Written()
    scene.events.lead(own)
    scene.events.partition_failed("l", "t", 1, MirrorError.TARGET_DIVERGED, "why")
    assert own.seen == [("partition_failed", "l", "t", 1, MirrorError.TARGET_DIVERGED, "why")]
    scene.events.lead(None)
    await wait_until_async(lambda: "a" in scene.leaders_told())


async def test_what_was_told_while_another_led_is_there_when_this_one_leads(scene: Scene) -> None:
    scene.events.records_lost("l", "t", 0, 5, 9)
    own = Written()
    scene.events.lead(own)
    assert ("records_lost", "l", "t", 0, 5, 9) in own.seen


async def test_a_leader_takes_no_news_of_another_mirror_of_the_name(scene: Scene) -> None:
    own, heard = Written(), scene.peers.handlers[module.MIRROR_EVENT]
    news = MirrorNews(FAILED, "l", "t", (0, "TARGET_DIVERGED", "why"), "1.0.to")
    with pytest.raises(NetError, match="does not lead"):
        await heard(news.to_wire())
    scene.events.lead(own)
    for tag, expected in (("7.0.to", 0), ("1.0.to", 1), ("", 2)):
        await heard(news._replace(tag=tag).to_wire())
        assert len(own.seen) == expected


@pytest.mark.parametrize(
    ("news", "record"),
    [
        (MirrorNews(TRANSLATED, "l", "t", ("why",), "1.0.to"), replace(RECORD, mode=MirrorMode.TRANSLATE)),
        (MirrorNews(READABLE, "l", "t", (), "1.0.to"), replace(RECORD, readable=True)),
        (
            MirrorNews(FAILED, "l", "t", (0, "TARGET_DIVERGED", "why"), "1.0.to"),
            replace(RECORD, state=MirrorState.FAILED),
        ),
        (
            MirrorNews(LOST, "l", "t", (1, 5, 9), "1.0.to"),
            replace(RECORD, lost=(LostRecords(0, 0), LostRecords(4, 9))),
        ),
    ],
    ids=["translated", "readable", "failed", "lost"],
)
def test_what_is_written_is_told_no_more(news: MirrorNews, record: MirrorRecord) -> None:
    assert MirrorNews.from_wire(news.to_wire()) == news
    assert not news.is_written(RECORD)
    assert news.is_written(record)
    assert news.is_written(replace(RECORD, mirror_id=2)), "of another mirror"
    assert news.is_written(None), "of none any more"
