"""A link tells when its source is lost, why it is so now, and when it is there again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from gateway.mirror.engine.destination import Destination
from gateway.mirror.engine.link import LinkMirror
from gateway.mirror.engine.read_replicas import FetchNode
from gateway.mirror.rules.progress import MirrorProgress
from gateway.state.records import LinkRecord

LINK = LinkRecord(name="l", link_id=1, source_cluster_id="S", client={"bootstrap.servers": "s:1"})


class Told:
    """Keeps what the link tells."""

    def __init__(self) -> None:
        self.news: list[tuple[bool, str]] = []

    def source_available(self, _link: str, available: bool, message: str, *, refused: bool = False) -> None:
        self.refused = refused
        self.news.append((available, message))


def link_to(source: SimpleNamespace, told: Told) -> LinkMirror:
    return LinkMirror(
        LINK,
        cast("Any", source),
        cast("Destination", SimpleNamespace(cluster=None, may_append=lambda: True)),
        progress=MirrorProgress(),
        events=cast("Any", told),
        clock=lambda: 0.0,
        wall_ms=lambda: 0,
        owned=lambda _link, _topic: None,
        carried=lambda *_: None,
        max_wait_ms=lambda: 500,
    )


async def test_a_lost_source_is_told_once_for_each_reason():
    told = Told()
    source = SimpleNamespace(available=True, last_error="", on_view=[], view=None, refused=False)
    link = link_to(source, told)
    link.tick(0.0)
    source.available, source.last_error = False, "connection refused"
    link.tick(1.0)
    link.tick(5.9)
    assert told.news == [], "not before it lasts"
    link.tick(6.0)
    link.tick(7.0)
    source.last_error = "certificate has expired"
    link.tick(8.0)
    link.tick(9.0)
    source.last_error = ""  # between two attempts: why it was lost still holds
    link.tick(10.0)
    lost = [link.lost]  # for a gateway that begins to lead now
    source.available = True
    link.tick(11.0)
    assert [*lost, link.lost] == [("certificate has expired", False), None]
    assert told.news == [(False, "connection refused"), (False, "certificate has expired"), (True, "")]


async def test_a_source_that_is_lost_again_is_told_again():
    told = Told()
    source = SimpleNamespace(available=False, last_error="", on_view=[], view=None, refused=False)
    link = link_to(source, told)
    for now in (0.0, 5.0):
        link.tick(now)
    source.available = True
    link.tick(6.0)
    source.available = False
    for now in (7.0, 12.0):
        link.tick(now)
    lost = (False, "no connection to the source")
    assert told.news == [lost, (True, ""), lost]


async def test_a_paused_link_fetches_nothing_and_goes_on_where_it_was():
    def leader(_topic: str, _partition: int) -> int:
        return 1

    source = SimpleNamespace(
        available=True, last_error="", on_view=[], view=None, refused=False, leader=leader, config=None
    )
    link = link_to(source, Told())
    fetched: list[tuple[str, object]] = []

    class Fetcher:
        empty = False

        def add(self, runner: object) -> None:
            fetched.append(("add", runner))

        def discard(self, runner: object) -> None:
            fetched.append(("discard", runner))

    link._fetchers[FetchNode(1, asks=False)] = cast("Any", Fetcher()), None
    runner: Any = type("Runner", (), {"source_topic": "t", "partition": 0, "mirror": SimpleNamespace(ended=False)})()
    told: list[bool] = []
    link.topics["t"] = cast(
        "Any", SimpleNamespace(runners={0: runner}, update=lambda dependencies: told.append(dependencies.skip_deleted))
    )
    link._assign_source(runner)
    assert fetched == [("add", runner)]

    paused = {"cluster.link.paused": "true"}
    link.update(replace(LINK, configs=paused))
    link._assign_source(runner)  # its leader moves meanwhile
    assert fetched == [("add", runner), ("discard", runner)]

    link.update(replace(LINK, configs={"mirror.on.records.deleted": "skip", "throttle.bytes.per.second": "1000"}))
    assert fetched == [("add", runner), ("discard", runner), ("add", runner)]
    assert told == [False, True]
    assert link._throttle.limit(10**9) < 10**9


async def test_a_paused_link_looks_for_no_ids():
    """Nobody could bring what partitions wait for, so no time passes for them."""
    source = SimpleNamespace(available=True, last_error="", on_view=[], view=None, refused=False, config=None)
    link, looked = link_to(source, Told()), list[float]()
    link.topics["t"] = cast(
        "Any",
        SimpleNamespace(runners={}, update=lambda _: None, tick=lambda _: None, look_at_ids=looked.append),
    )
    link.tick(1.0)
    link.update(replace(LINK, configs={"cluster.link.paused": "true"}))
    link.tick(2.0)
    link.update(LINK)
    link.tick(3.0)
    assert looked == [1.0, 3.0]


async def test_another_rack_has_every_partition_asked_for_anew_of_its_leader():
    def leader(_topic: str, _partition: int) -> int:
        return 1

    source = SimpleNamespace(
        available=True, last_error="", on_view=[], view=None, refused=False, leader=leader, config=None
    )
    link = link_to(source, Told())
    fetched: list[tuple[str, FetchNode]] = []

    class Fetcher:
        empty = True

        def __init__(self, place: FetchNode) -> None:
            self.place = place

        def add(self, runner: object) -> None:
            fetched.append(("add", self.place))

        def discard(self, runner: object) -> None:
            fetched.append(("discard", self.place))

    def fetcher(place: FetchNode) -> Any:
        return link._fetchers.setdefault(place, (cast("Any", Fetcher(place)), None))[0]

    link._fetcher = fetcher  # type: ignore[method-assign]
    runner: Any = type("Runner", (), {"source_topic": "t", "partition": 0, "mirror": SimpleNamespace(ended=False)})()
    link.topics["t"] = cast("Any", SimpleNamespace(runners={0: runner}, update=lambda dependencies: None))
    link._assign_source(runner)
    for rack, place in (("c", FetchNode(1, asks=True)), ("d", FetchNode(1, asks=True)), ("", FetchNode(1, asks=False))):
        before, fetched[:] = fetched[-1][1], []
        link.update(replace(LINK, configs={"client.rack": rack}))
        assert fetched == [("discard", before), ("add", place)]
        assert link._replicas.rack == rack
        link.update(replace(LINK, configs={"client.rack": rack}))
        assert len(fetched) == 2, "nothing has changed"
