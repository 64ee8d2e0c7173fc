"""The judge of `make demo-carry`: a clean run passes, and each seeded fault is found under its own name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest

from demo.carry.judge import missing_names
from demo.carry.look import Held
from demo.carry.registry import Version
from demo.carry.rights import APP, BILLING, PACKING, WEB
from demo.carry.settings import GROUP, SHARE_GROUP, CarrySettings
from demo.carry.verdict import CarryVerdict, Told, judge_all
from demo.checker import LogRecord, TopicLog
from demo.history import Ack, ClientError, History, ReadBatch, Side
from demo.outcome import last_line
from demo.records import RecordId
from demo.secure.authorizer_log import Decision

RECORDS = 10
MOVED_AT = 5
"""Both groups have read so many on the source."""
SUBJECTS = {"orders-value": {1: Version(4, "AVRO", "long", True), 2: Version(5, "AVRO", "string", False)}}
TOLD = Told(differences=(), share_promoted=True, share_again=2, throttled=True, nameless=(), next_id=6)


def reads(member: str, side: Side, numbers: range) -> ReadBatch:
    return ReadBatch(member, side, 0, 0, list(numbers), [RecordId(WEB, number) for number in numbers])


@dataclass
class Scene:
    """Ten records in one partition."""

    history: History = field(default_factory=History)
    told: Told = TOLD
    source: Held = field(init=False)
    target: Held = field(init=False)

    def __post_init__(self) -> None:
        records = [LogRecord(number, RecordId(WEB, number), number) for number in range(RECORDS)]
        self.history.acks[WEB] = [Ack(number, 0, number, 0) for number in range(RECORDS)]
        for group, member, again in ((GROUP, BILLING, 0), (SHARE_GROUP, PACKING[0], 2)):
            self.history.reads[group] = [
                reads(member, Side.SOURCE, range(MOVED_AT)),
                reads(member, Side.TARGET, range(MOVED_AT - again, RECORDS)),
            ]
        held = Held(
            log=TopicLog({0: records}, {0: RECORDS}),
            ids={5: "string"},
            acls=frozenset({"ALLOW one", "DENY two"}),
            users=frozenset({WEB, APP}),
            quotas={"user shop-web: producer_byte_rate": 5.0},
            subjects=SUBJECTS,
            level="BACKWARD",
        )
        self.source = replace(held, log=TopicLog({0: records[:8]}, {0: 8}))  # what it had at the promote
        self.target = replace(held, acls=frozenset(held.acls), users=held.users | {"of the target's own"})

    def verdict(self) -> CarryVerdict:
        return judge_all(self.history, self.source, self.target, self.told)

    def on_target(self, **what: Any) -> None:
        self.target = replace(self.target, **what)

    def tell(self, **what: Any) -> None:
        self.told = replace(self.told, **what)

    def records(self, records: list[LogRecord]) -> None:
        self.on_target(log=TopicLog({0: records}, {0: len(records)}))

    def written(self) -> list[LogRecord]:
        return list(self.target.log.partitions[0])


def test_a_clean_run_passes_and_says_so() -> None:
    verdict = Scene().verdict()
    assert verdict.passed, verdict.examples
    assert (verdict.acknowledged, verdict.share_again) == (RECORDS, 2)
    assert last_line("demo-carry", verdict, "") == (
        "demo-carry: PASS lost=0 duplicated=0 acls_equal=true schemas_equal=true ids_fixed=true share_group=true"
        " client_errors=0"
    )


def _swap(scene: Scene) -> None:
    one, two, *rest = scene.written()
    scene.records([two._replace(offset=0), one._replace(offset=1), *rest])


def _version(scene: Scene, number: int, **what: Any) -> None:
    versions = SUBJECTS["orders-value"]
    changed = Version(**{**versions[number]._asdict(), **what})
    scene.on_target(subjects={"orders-value": {**versions, number: changed}})


def _no_acls(scene: Scene) -> None:
    scene.on_target(acls=frozenset())
    scene.source = replace(scene.source, acls=frozenset())


def _no_ids(scene: Scene) -> None:
    scene.source = replace(scene.source, ids={})


FAULTS: dict[str, tuple[Callable[[Scene], object], str]] = {
    "a record that is not on the target": (lambda s: s.records(s.written()[:-1]), "lost"),
    "a record that the group never read": (lambda s: s.history.reads[GROUP].pop(), "lost"),
    "a record that is there twice": (lambda s: s.records([*s.written(), s.written()[3]._replace(offset=10)]), "dupl"),
    "a record that the group read again": (
        lambda s: s.history.reads[GROUP].append(reads(BILLING, Side.TARGET, range(3, 4))),
        "dupl",
    ),
    "another order": (_swap, "unequal"),
    "another content": (lambda s: s.records([s.written()[0]._replace(digest=99), *s.written()[1:]]), "unequal"),
    "an ACL too few": (lambda s: s.on_target(acls=frozenset({"ALLOW one"})), "acls"),
    "an ACL too many": (lambda s: s.on_target(acls=s.target.acls | {"ALLOW three"}), "acls"),
    "no ACLs at all": (_no_acls, "acls"),
    "a difference that lockgate sees": (lambda s: s.tell(differences=("+ ALLOW",)), "acls"),
    "a subject too few": (lambda s: s.on_target(subjects={}), "schemas"),
    "another schema": (lambda s: _version(s, 2, schema="long"), "schemas"),
    "a version that is not deleted": (lambda s: _version(s, 1, deleted=False), "schemas"),
    "another level": (lambda s: s.on_target(level="NONE"), "schemas"),
    "a careless request": (lambda s: s.tell(offences=("emptied orders-value",)), "schemas"),
    "another id": (lambda s: _version(s, 2, id=7), "ids"),
    "an id of another meaning": (lambda s: s.on_target(ids={5: "long"}), "ids"),
    "an id that is given again": (lambda s: s.tell(next_id=5), "ids"),
    "no ids": (_no_ids, "ids"),
    "a record that the share group never read": (
        lambda s: s.history.reads[SHARE_GROUP].__setitem__(1, reads("m", Side.TARGET, range(6, RECORDS))),
        "share",
    ),
    "a record that the share group reads again on the target": (
        lambda s: s.history.reads[SHARE_GROUP].append(reads("m", Side.TARGET, range(8, 9))),
        "",  # it is at-least-once: no fault
    ),
    "a record of nobody": (
        lambda s: s.history.reads[SHARE_GROUP].append(reads("m", Side.TARGET, range(77, 78))),
        "share",
    ),
    "more that came again than was announced": (lambda s: s.tell(share_again=1), "share"),
    "a share group that did not move": (lambda s: s.tell(share_promoted=False), "share"),
    "a share group that read on one side only": (
        lambda s: s.history.reads.__setitem__(SHARE_GROUP, [reads("m", Side.TARGET, range(RECORDS))]),
        "share",
    ),
    "an error that a client was shown": (
        lambda s: s.history.errors.append(ClientError(BILLING, 0, "GROUP_AUTHORIZATION_FAILED")),
        "errors",
    ),
    "a user too few": (lambda s: s.on_target(users=frozenset({WEB})), "left"),
    "another quota": (lambda s: s.on_target(quotas={"user shop-web: producer_byte_rate": 6.0}), "left"),
    "a quota that slows nobody down": (lambda s: s.tell(throttled=False), "left"),
    "a client without its name": (lambda s: s.tell(nameless=("shop-web: Produce",)), "left"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_found_under_its_name(fault: str) -> None:
    scene = Scene()
    seed, where = FAULTS[fault]
    seed(scene)
    verdict = scene.verdict()
    clean = Scene().verdict()
    names = [one.name for one in fields(verdict) if one.name not in ("acknowledged", "examples", "share_again")]
    changed = [name for name in names if getattr(verdict, name) != getattr(clean, name)]
    assert verdict.passed is not bool(where), verdict
    assert any(name.startswith(where) for name in changed) if where else not changed
    assert bool(verdict.examples or verdict.errors) is bool(where)


def test_nothing_written_is_no_pass() -> None:
    scene = Scene()
    scene.history.acks.clear()
    assert not scene.verdict().passed


def test_each_client_is_looked_for_under_its_own_name() -> None:
    def allowed(who: str, request: str, operation: str, resource: str) -> Decision:
        return Decision(10, who, True, operation, resource, request)

    seen = [
        *(allowed(name, "Produce", "WRITE", "Topic orders") for name in (WEB, APP)),
        allowed(BILLING, "OffsetCommit", "READ", "Group billing"),
        *(allowed(name, "ShareFetch", "READ", "Topic orders") for name in PACKING),
    ]
    assert missing_names(seen, 10) == []
    assert len(missing_names(seen, 11)) == 5
    assert missing_names(seen[1:], 0) == ["shop-web: Produce of Topic orders"]
    assert missing_names([*seen[1:], seen[0]._replace(allowed=False)], 0) == ["shop-web: Produce of Topic orders"]
    assert missing_names([*seen[1:], seen[0]._replace(who="lockgate")], 0) == ["shop-web: Produce of Topic orders"]


def test_settings_name_folders_of_their_own() -> None:
    settings = CarrySettings()
    assert settings.folder.name == "demo-carry"
    assert settings.report.name == "demo-carry.json"
