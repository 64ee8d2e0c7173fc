"""What is decided of all topics, groups, ACLs or subjects of a cluster costs in proportion to how many there are.

The leader looks at 20,000 topics, a thousand groups and a thousand rules in a turn of its event loop, and again every
few seconds: what goes through the one for each of the other keeps clients and heartbeats waiting for seconds.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable

import pytest

from gateway.access.rules.compare import AccessScene, MirrorTopic, compare
from gateway.access.rules.rights import Rights
from gateway.access.rules.transform import Topics, passing, stand_in
from gateway.console.rules.applications import _named
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType
from gateway.migration.rules.client_errors import promoted_names
from gateway.migration.rules.file import Application, MigrationFile, ordered, shared_name
from gateway.migration.rules.picture import svg
from gateway.migration.rules.resolve import resolve
from gateway.migration.rules.sets import Discovered, MoveSet, SetKind, discover
from gateway.migration.rules.snapshot import GroupSeen, SourceSnapshot, TopicSeen, TransactionalIdSeen
from gateway.migration.rules.ties import Tie, Why, group, topic
from gateway.migration.rules.world import MirrorStanding, World
from gateway.schemas.rules.model import Schema, SchemaReference, Subject, Version, VersionKey
from gateway.schemas.rules.plan import plan
from gateway.schemas.rules.scene import SchemaPlanInput
from gateway.state.link_config import parse
from gateway.state.name_filters import NameFilter, NameFilters
from gateway.state.records import MirrorState
from tests.support.control.mirror_records import one_partition

FEW, MANY = 1_000, 10_000
AT_MOST = 40
"""Times the time for ten times as much: a hundred when each is compared with each."""

Work = Callable[[], object]


def names(count: int, what: str = "topic") -> list[str]:
    """A tenth as many teams as topics."""
    return [f"team{at % (count // 10):04d}.{what}-{at:05d}" for at in range(count)]


def file(count: int, team: str = "team") -> MigrationFile:
    return MigrationFile(
        migration="m",
        link="l",
        applications=[
            Application(name=f"a{at}", topics=[f"{team}{at:04d}.*"], groups=[f"{team}{at:04d}-*"])
            for at in range(count // 10)
        ],
    )


def resolving(count: int) -> Work:
    mirrors = {
        name: MirrorStanding(mirror_topic=name, state=MirrorState.ACTIVE, link="l", lag=0) for name in names(count)
    }
    world = World(source_topics=frozenset(mirrors), source_groups=frozenset(names(count // 10)), mirrors=mirrors)
    of_file = file(count)
    return lambda: resolve(of_file, world)


def two_files(count: int) -> Work:
    one, other = file(count * 2), file(count * 2, "other")
    return lambda: [shared_name(one, other) for _ in range(20)]


def a_chain(count: int) -> Work:
    """Each application goes after the one that stands behind it."""
    last = count // 10
    chain = [
        Application(name=f"a{at}", topics=["t"], after=[f"a{at + 1}"] if at + 1 < last else []) for at in range(last)
    ]
    return lambda: [ordered(chain) for _ in range(20)]


def watching_promoted(count: int) -> Work:
    of_file = file(count)
    mirrors = [one_partition(name, MirrorState.STOPPED, 0) for name in names(count)]
    return lambda: promoted_names(of_file, mirrors, ())


def showing_applications(count: int) -> Work:
    patterns = [(f"a{at}", [f"team{at:04d}.*"]) for at in range(count // 10)]
    rows = {name: {"name": name} for name in names(count)}
    return lambda: _named(patterns, rows)


def streams(count: int) -> SourceSnapshot:
    apps = count // 10
    return SourceSnapshot(
        cluster_id="c",
        at_ms=0,
        topics=tuple(
            TopicSeen(name=f"app{at % apps:04d}-store-{at}-changelog", producer_ids=frozenset({at}))
            for at in range(count)
        ),
        groups=tuple(GroupSeen(name=f"app{at:04d}", protocol_type="consumer") for at in range(apps)),
        transactional_ids=tuple(
            TransactionalIdSeen(name=f"app{at:04d}-0_1", producer_ids=frozenset({at})) for at in range(apps)
        ),
        offset_partition_count=50,
        not_known=(),
    )


def readers(count: int) -> SourceSnapshot:
    """Sets of one topic, each of which has the name of the one before it; groups that read three of them."""
    return SourceSnapshot(
        cluster_id="c",
        at_ms=0,
        topics=tuple(TopicSeen(name=name) for name in names(count)),
        groups=tuple(
            GroupSeen(
                name=f"group{at:04d}",
                protocol_type="consumer",
                committed=frozenset(names(count)[at * 3 : at * 3 + 3]),
            )
            for at in range(count // 10)
        ),
        offset_partition_count=50,
        not_known=(),
    )


def in_circles(count: int) -> SourceSnapshot:
    """Pairs of transactional ids whose groups read each other's topics."""
    ids = count // 10
    return SourceSnapshot(
        cluster_id="c",
        at_ms=0,
        topics=tuple(TopicSeen(name=f"t{at:04d}") for at in range(ids)),
        groups=tuple(
            GroupSeen(name=f"g{at:04d}", protocol_type="consumer", committed=frozenset({f"t{at ^ 1:04d}"}))
            for at in range(ids)
        ),
        transactional_ids=tuple(
            TransactionalIdSeen(name=f"x{at:04d}", open=frozenset({f"t{at:04d}"}), groups=frozenset({f"g{at:04d}"}))
            for at in range(ids)
        ),
        offset_partition_count=50,
        not_known=(),
    )


def discovering(snapshot: Callable[[int], SourceSnapshot]) -> Callable[[int], Work]:
    def work(count: int) -> Work:
        seen = snapshot(count)
        return lambda: discover(seen)

    return work


def drawing(count: int) -> Work:
    sets = tuple(MoveSet(name=f"s{at}", kind=SetKind.PLAIN, groups=(f"g{at}",)) for at in range(count // 50))
    across = tuple(
        Tie(group(f"g{at % (count // 50)}"), topic(name), Why.READS, "", binds=False)
        for at, name in enumerate(names(count))
    )
    return lambda: svg(Discovered(sets=sets, across=across))


def planning_schemas(count: int) -> Work:
    """Versions that name one another in a chain that begins with one that is not there; a tenth is asked for."""
    chain = count // 10

    def of(at: int) -> Schema:
        names_it = (SchemaReference("n", f"s{at - 1:05d}" if at else "gone", 1),) if at < chain else ()
        return Schema(json.dumps({"type": "fixed", "name": "F", "size": at}), references=names_it)

    source = {
        f"s{at:05d}": Subject(
            numbers=frozenset({1}), active=frozenset({1}), versions={1: Version(1, at, of(at))}, level=""
        )
        for at in range(count)
    }
    asked = frozenset(VersionKey(f"s{at:05d}", 1) for at in range(chain))
    return lambda: plan(SchemaPlanInput(source=source, target={}, asked=asked))


def filtering(count: int) -> Work:
    filters = NameFilters(
        tuple(NameFilter(f"team{at:04d}.", prefixed=at % 2 == 0, exclude=at % 3 == 0) for at in range(count // 10))
    )
    topics = names(count)
    return lambda: [filters.passes(name) for name in topics]


def acl(name: str, at: int = 0, pattern: PatternType = PatternType.PREFIXED) -> Acl:
    return Acl(ResourceType.TOPIC, pattern, name, "User:u", f"h{at}", Operation.WRITE, Permission.ALLOW)


def filtering_acls(count: int) -> Work:
    filters = [
        {"resourceFilter": {"name": f"team{at:04d}.", "patternType": "match" if at % 2 else "prefixed"}}
        for at in range(count // 10)
    ]
    config = parse({"acl.sync.enable": "true", "acl.filters": json.dumps({"aclFilters": filters})})
    acls = [acl(f"team{at % (count // 10):04d}.", at) for at in range(count)]
    return lambda: passing(acls, config)


def standing_in(count: int) -> Work:
    """Rights on every topic that are held back, while a half of the topics is promoted."""
    held = [acl("*", at, PatternType.LITERAL) for at in range(count // 10)]
    topics = Topics(names(count), names(count, "promoted"))
    return lambda: stand_in(frozenset(held), held, topics, ("10.0.0.1",))


def comparing(count: int) -> Work:
    """One principal with a right on a tenth of the topics' names, none of which is a mirror topic."""
    acls = frozenset(acl(f"other{at:04d}.") for at in range(count // 10))
    mirrors = {name: MirrorTopic(name, promoted=False) for name in names(count)}
    scene = AccessScene(
        config=parse({}), source=Rights(acls, "User:u"), target=Rights(acls, "User:u"), host="", mirrors=mirrors
    )
    return lambda: compare(scene)


@pytest.mark.parametrize(
    "of",
    [
        resolving,
        two_files,
        a_chain,
        watching_promoted,
        showing_applications,
        discovering(streams),
        discovering(readers),
        discovering(in_circles),
        drawing,
        planning_schemas,
        filtering,
        filtering_acls,
        standing_in,
        comparing,
    ],
)
def test_ten_times_as_much_takes_some_ten_times_as_long(of: Callable[[int], Work]) -> None:
    few, many = of(FEW), of(MANY)
    assert cpu_s(many) < AT_MOST * max(cpu_s(few), 0.0005)


def cpu_s(work: Work) -> float:
    """The least of three, of this process alone, whatever else the machine does."""
    gc.collect()
    gc.disable()
    try:
        return min(_once(work) for _ in range(3))
    finally:
        gc.enable()


def _once(work: Work) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
