"""The demote of a group: its steps one by one, and every way in which it can be interrupted."""

from __future__ import annotations

import copy as copying
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.groups.rules import demote as group_demote
from gateway.groups.rules.demote import (
    DemoteLimits,
    DemoteMemory,
    DemoteSnapshot,
    DemoteStep,
    DemoteStepKind,
    DemoteViolated,
    check,
    next_step,
)
from gateway.state.records import GroupState, MirrorDirection, MirrorRecord, MirrorState, PartitionStart
from tests.support.control.mirror_records import changed
from tests.support.models.search import Violation, explore

K, S, G = DemoteStepKind, MirrorState, GroupState
LIMITS = DemoteLimits()
A, B = ("t", 0), ("t", 1)
MIRROR = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1, starts=(PartitionStart(0, 0),) * 2)
BACK = changed(MIRROR, direction=MirrorDirection.REVERSE)
NOBODY = {"looked": True, "shut": True, "closed": True, "answered": True, "on_target": "", "on_source": ""}
READ = {**NOBODY, "offsets": {A: (40, "m")}}
LEVEL = {**READ, "waiting_since": 100.0}
BACK_AT_40 = {**LEVEL, "mirrors": {"t": BACK}, "mirrored_back": {A: 40}}
HELD = {**LEVEL, "meant": {A: (40, "m")}, "held": {A: (40, "m"), B: (1, "")}}


def snapshot(**known: object) -> DemoteSnapshot:
    values = {"now": 100.0, "group": "g", "state": G.PROMOTED, "mirrors": {"t": MIRROR}} | known
    return DemoteSnapshot(**values)  # type: ignore[arg-type]


def decide(**known: object) -> DemoteStep:
    return next_step(snapshot(**known), LIMITS)


@pytest.mark.parametrize(
    ("known", "kind"),
    [
        ({}, K.CHECK_TARGET),
        ({"state": G.ACTIVE}, K.DONE),
        ({"looked": True}, K.CLOSE_GATE),
        ({"gave_up": "members"}, K.DONE),
        ({"looked": True, "shut": True, "gave_up": "no"}, K.OPEN_GATE),
        ({"looked": True, "shut": True, "closed": True}, K.AWAIT_COMMITS),
        ({**NOBODY, "on_source": None}, K.CHECK_MEMBERS),
        ({**NOBODY, "on_target": None}, K.CHECK_MEMBERS),
        ({**NOBODY, "on_source": "c (h)"}, K.OPEN_GATE),
        (NOBODY, K.READ_OFFSETS),
        ({**NOBODY, "offsets": {}}, K.AWAIT_MIRROR),
        ({**NOBODY, "offsets": {}, "waiting_since": 100.0}, K.COMMIT),
        (READ, K.AWAIT_MIRROR),
        (LEVEL, K.COMMIT),
        ({**LEVEL, "mirrors": {"t": BACK}}, K.AWAIT_MIRROR),  # how far it has come is not known
        ({**LEVEL, "mirrors": {"t": BACK}, "mirrored_back": {A: None}}, K.AWAIT_MIRROR),
        ({**LEVEL, "mirrors": {"t": BACK}, "mirrored_back": {A: 39}}, K.AWAIT_MIRROR),
        ({**BACK_AT_40, "mirrors": {"t": replace(BACK, state=S.PENDING_RESTORE_MIRROR)}}, K.AWAIT_MIRROR),
        ({**LEVEL, "mirrors": {"t": replace(MIRROR, state=S.PENDING_SYNCHRONIZE)}}, K.AWAIT_MIRROR),
        ({**LEVEL, "mirrors": {"t": BACK}, "waiting_since": 70.0}, K.OPEN_GATE),
        (BACK_AT_40, K.COMMIT),
        ({**READ, "mirrors": {"t": replace(MIRROR, state=S.STOPPED)}}, K.OPEN_GATE),
        ({**BACK_AT_40, "mirrors": {"t": replace(MIRROR, state=S.STOPPED)}}, K.OPEN_GATE),  # failed over meanwhile
        ({**READ, "mirrors": {}}, K.OPEN_GATE),
        ({**READ, "carried": frozenset({A})}, K.AWAIT_MIRROR),
        ({**READ, "carried": frozenset({A, B})}, K.OPEN_GATE),
        ({**NOBODY, "offsets": {}, "carried": frozenset({A})}, K.OPEN_GATE),
        ({**NOBODY, "offsets": {}, "carried": frozenset({("gone", 0)})}, K.AWAIT_MIRROR),
        (HELD, K.MARK_ACTIVE),
        ({**HELD, "held": {A: (39, "m")}}, K.OPEN_GATE),
        ({**HELD, "held": {}}, K.OPEN_GATE),
        ({**HELD, "storing_since": 71.0}, K.MARK_ACTIVE),
        ({**HELD, "storing_since": 70.0}, K.OPEN_GATE),
        ({**HELD, "committing": True}, K.SETTLE),
        ({**HELD, "committing": True, "gave_up": "no"}, K.SETTLE),
        ({**HELD, "state": G.ACTIVE, "marked": True}, K.OPEN_GATE),
        ({**HELD, "state": G.ACTIVE, "marked": True, "opened": True}, K.DONE),
    ],
)
def test_steps(known: dict[str, object], kind: DemoteStepKind) -> None:
    assert decide(**known).kind is kind


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"state": G.ACTIVE}, "group 'g' is ACTIVE, not PROMOTED"),
        ({**NOBODY, "on_source": "c (h)"}, "has members on the source: stop them first: c (h)"),
        ({**LEVEL, "mirrors": {"t": BACK}}, "the mirror back of t-0 is not known yet, the group is at 40 (ACTIVE)"),
        ({**LEVEL, "mirrors": {"t": BACK}, "waiting_since": 70.0}, "cannot go back yet: the mirror back of t-0 is not"),
        ({**READ, "carried": frozenset({B})}, "the target holds no offset for t-1, where one was carried over"),
        ({**READ, "mirrors": {}}, "mirror topic 't' was deleted meanwhile"),
        ({**HELD, "held": {}}, "the source does not hold the offset committed for group 'g' on t-0"),
        ({**HELD, "committing": True}, "whether the demote is stored is not known"),
        ({**HELD, "storing_since": 1.0}, "could not be stored for 30 s"),
    ],
)
def test_what_is_waited_for_and_why_it_ends_is_said(known: dict[str, object], reason: str) -> None:
    assert reason in decide(**known).reason


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"gate_open": True}, K.CHECK_MEMBERS),
        ({"answered": False}, K.COMMIT),
        ({"closed": False}, K.MARK_ACTIVE),
        ({"opened": True}, K.MARK_ACTIVE),
        ({"on_target": None}, K.COMMIT),
        ({"on_source": "c"}, K.MARK_ACTIVE),
        ({"offsets": None}, K.COMMIT),
        ({"carried": frozenset({B})}, K.COMMIT),
        ({"mirrors": {"t": BACK}}, K.COMMIT),
        ({"meant": None}, K.MARK_ACTIVE),
        ({"meant": {}}, K.MARK_ACTIVE),
        ({"held": None}, K.MARK_ACTIVE),
        ({"held": {A: (41, "m")}}, K.MARK_ACTIVE),
        ({"committing": True}, K.OPEN_GATE),
    ],
)
def test_the_second_opinion_refuses(wrong: dict[str, object], kind: DemoteStepKind) -> None:
    with pytest.raises(DemoteViolated):
        check(snapshot(**{**HELD, **wrong}), DemoteStep(kind))
    for fine in (K.COMMIT, K.MARK_ACTIVE):
        check(snapshot(**HELD), DemoteStep(fine))


# -- every interruption ----------------------------------------------------------------------------------------


class World:
    """One group of one partition, two gateways (0 leads), a mirror back, and a demote that may be killed at any step.

    `target` and `source`: what is committed there; `passing`: commits that passed a gate and have not arrived.
    `hidden`: the record is ACTIVE, and nobody knows yet. `back`: how far the mirror back has come, None: the topic is
    not mirrored back.
    """

    def __init__(self, back: int | None, faults: int = 2, work: int = 2) -> None:
        self.state, self.hidden = G.PROMOTED, False
        self.target, self.source = 1, 0
        self.back, self.stopped = back, False
        self.passing = [0, 0]
        self.shut = [False, False]
        self.reads_active = [False, False]
        self.member = self.returned = False
        self.faults, self.work = faults, work
        self.memory = DemoteMemory()
        self.now = 0.0
        self.ended = ""

    def clone(self) -> World:
        other = copying.copy(self)
        other.memory = copying.copy(self.memory)
        other.passing, other.shut, other.reads_active = list(self.passing), list(self.shut), list(self.reads_active)
        return other

    def key(self) -> str:
        memory = {name: value for name, value in vars(self.memory).items() if not name.endswith("since")}
        own = {name: value for name, value in vars(self).items() if name not in ("memory", "now")}
        return f"{own} {memory} {self.memory.waiting_since is None} {self.memory.storing_since is None}"

    def is_open(self, gateway: int) -> bool:
        return not self.shut[gateway] and not self.reads_active[gateway]

    def snapshot(self) -> DemoteSnapshot:
        if self.back is None:
            mirror = replace(MIRROR, state=S.STOPPED) if self.stopped else MIRROR
        else:
            mirror = replace(MIRROR, state=S.STOPPED) if self.stopped else BACK
        carried = frozenset({A}) if self.state is G.PROMOTED else frozenset()
        return self.memory.snapshot(self.now, "g", self.state, {"t": mirror}, carried, gate_open=self.is_open(0))

    def step(self) -> DemoteStep:
        return next_step(self.snapshot(), LIMITS)

    def events(self) -> Iterator[str]:
        if not self.ended:
            yield from self._of_the_run()
        for index in range(2):
            if self.work and self.is_open(index):
                yield f"commit passes {index}"
            if self.passing[index]:
                yield f"commit arrives {index}"
            if self.state is G.ACTIVE and not self.reads_active[index]:
                yield f"reads {index}"
        if self.back is not None and self.back < self.target and not self.stopped:
            yield "mirror"
        if self.faults and self.back is not None and not self.stopped and self.state is G.PROMOTED and not self.hidden:
            yield "mirror back ends"

    def _of_the_run(self) -> Iterator[str]:
        kind = self.step().kind
        waits = kind is K.AWAIT_COMMITS and self.passing[0]
        if not waits:
            yield "step"
        if not self.faults:
            return
        yield "killed"
        if waits:
            yield "no answer"
        if kind in (K.CLOSE_GATE, K.CHECK_MEMBERS, K.READ_OFFSETS, K.COMMIT):
            yield "refused"
        if kind is K.MARK_ACTIVE:
            yield from ("not stored", "lost after commit", "lost before commit")

    def happen(self, event: str) -> None:
        what, _, index = event.rpartition(" ") if event[-1].isdigit() else (event, "", "0")
        at = int(index)
        if what == "step":
            self._take(self.step())
        elif what == "commit passes":
            self.work, self.passing[at] = self.work - 1, self.passing[at] + 1
        elif what == "commit arrives":
            self.passing[at] -= 1
            self.target += 1
        elif what == "reads":
            self.reads_active[at] = True
        elif what == "mirror":
            self.back = self.target
        else:
            self.faults -= 1
            self._go_wrong(what)
        self.check()

    def _go_wrong(self, what: str) -> None:
        memory = self.memory
        if what == "killed":  # gates are by the record at the next leader, and whoever asked asks again
            self._known()
            self.reads_active = [self.state is G.ACTIVE] * 2
            self.shut = [False, False]
            self.memory = DemoteMemory()
            self.ended = "demoted" if self.state is G.ACTIVE else ""
        elif what == "mirror back ends":
            self.stopped = True
        elif what == "not stored":
            memory.storing(self.now)
            memory.give_up("the target is away")
            memory.known(self.state)
        elif what.startswith("lost"):
            memory.storing(self.now)
            self.hidden = what == "lost after commit"
        else:
            if self.step().kind is K.CLOSE_GATE:
                self.shut[0] = memory.shut = True
            memory.give_up(what)

    def _known(self) -> None:
        if self.hidden:
            self.state, self.hidden = G.ACTIVE, False
            self.reads_active[0] = True

    def _take(self, step: DemoteStep) -> None:
        getattr(self, f"_do_{step.kind}")(step)

    def _do_check_target(self, _: DemoteStep) -> None:
        self.memory.looked = True

    def _do_close_gate(self, _: DemoteStep) -> None:
        """The other gateway answers when its commits are; the leader's own are waited for next."""
        self.shut = [True, True]
        self.target += self.passing[1]
        self.passing[1] = 0
        self.memory.shut = self.memory.closed = True

    def _do_await_commits(self, _: DemoteStep) -> None:
        self.memory.answered = True

    def _do_check_members(self, _: DemoteStep) -> None:
        self.memory.on_target = self.memory.on_source = ""

    def _do_read_offsets(self, _: DemoteStep) -> None:
        self.memory.offsets = {A: (self.target, "")}

    def _do_await_mirror(self, _: DemoteStep) -> None:
        self.memory.mirror_looked_at({} if self.back is None else {A: self.back}, self.now)
        self.now += 10.0

    def _do_commit(self, _: DemoteStep) -> None:
        self.source = (self.memory.offsets or {})[A][0]
        self.memory.meant = self.memory.offsets
        self.memory.held = {A: (self.source, "")}

    def _do_mark_active(self, _: DemoteStep) -> None:
        self.memory.storing(self.now)
        self.hidden = True
        self._known()
        self.memory.known(self.state)

    def _do_settle(self, _: DemoteStep) -> None:
        self._known()
        self.memory.known(self.state)

    def _do_open_gate(self, _: DemoteStep) -> None:
        self.shut = [False, self.shut[1] and self.state is G.ACTIVE and not self.reads_active[1]]
        self.memory.opened = True

    def _do_done(self, step: DemoteStep) -> None:
        self.ended = step.reason or "demoted"

    def check(self) -> None:
        active = self.hidden or self.state is G.ACTIVE
        if active and (self.source != self.target or any(self.passing)):
            raise Violation(f"ACTIVE at {self.source}, the target is at {self.target}, {self.passing} are on their way")
        if active and (self.is_open(0) or self.is_open(1)):
            raise Violation("a gate is open although the group is the source's")
        if active and self.back is not None and self.back < self.source:
            raise Violation("the source lacks records below the group's offset")
        if self.ended and (self.ended == "demoted") is not (self.state is G.ACTIVE):
            raise Violation(f"ended as {self.ended!r} in {self.state}")
        if self.ended and self.state is G.PROMOTED and not self.is_open(0):
            raise Violation("the gate of a PROMOTED group stays shut")


@pytest.mark.parametrize("back", [None, 0])
def test_whatever_is_interrupted_where_it_is_the_sources_exactly_or_as_before(back: int | None) -> None:
    ended, steps, states = explore(World(back))
    assert "demoted" in ended
    assert len(ended) > 2
    assert steps == set(K)
    assert states > 500


@pytest.mark.parametrize("kind", [each for each in K if each not in (K.SETTLE, K.DONE)])
@pytest.mark.parametrize("taken", [False, True], ids=["before", "after"])
def test_a_run_that_is_killed_at_a_step_is_taken_up_by_the_next(kind: DemoteStepKind, taken: bool) -> None:
    world = World(None, faults=1)
    while world.step().kind is not kind:
        world.happen("step")
    if taken:
        world.happen("step")
    stored = world.state is G.ACTIVE
    world.happen("killed")
    assert world.ended == ("demoted" if stored else "")
    while not world.ended:
        world.happen("step")
    assert world.ended == "demoted"


@settings(max_examples=300, deadline=None)
@given(data=st.data(), back=st.sampled_from([None, 0]))
def test_random_interleavings(data: st.DataObject, back: int | None) -> None:
    """More work and faults than can be gone through one by one."""
    world = World(back, faults=8, work=8)
    for _ in range(100):
        events = sorted(world.events())
        if not events:
            break
        world.happen(data.draw(st.sampled_from(events)))
    world.faults = 0
    for _ in range(60):
        if world.ended:
            break
        world.happen("commit arrives 0" if world.passing[0] else "step")
    assert world.ended


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ({"closed": True}, "open|are on their way|ACTIVE at"),
        ({"answered": True}, "are on their way|ACTIVE at"),
        ({"mirrored_back": {A: 99}}, "the source lacks records"),
        ({"committing": False}, "open|ended as"),
    ],
    ids=["the gate", "the answers", "the mirror back", "settling"],
)
def test_without_a_rule_there_is_a_counterexample(
    monkeypatch: pytest.MonkeyPatch, rule: dict[str, object], found: str
) -> None:
    """The second opinion is left out too: it would refuse."""
    shipped = group_demote._decide
    monkeypatch.setattr(group_demote, "check", lambda known, step: None)

    def decide(known: DemoteSnapshot, limits: DemoteLimits) -> DemoteStep:
        return shipped(replace(known, **rule), limits)  # type: ignore[arg-type]

    monkeypatch.setattr(group_demote, "_decide", decide)
    with pytest.raises(Violation, match=found):
        explore(World(0))
