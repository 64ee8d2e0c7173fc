"""The classic group protocol of the broker model, without brokers: joins, generations, sessions, static members."""

from __future__ import annotations

from collections.abc import Callable

from protocol.errors import ErrorCode
from tests.simulation.kafka.groups.classic_group import ClassicGroup, GroupRecord, GroupState, Joined, Synced
from tests.simulation.kafka.groups.group_rules import GroupRules, JoinRequest

DELAY_MS = 3000
SESSION_MS = 6000
REBALANCE_MS = 10_000


class Clock:
    """Timers that run when the test says so."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._timers: dict[tuple[str, ...], tuple[int, Callable[[], None]]] = {}

    def schedule(self, key: tuple[str, ...], delay_ms: int, action: Callable[[], None]) -> None:
        self._timers[key] = (self.now_ms + delay_ms, action)

    def cancel(self, key: tuple[str, ...]) -> None:
        self._timers.pop(key, None)

    def advance(self, ms: int) -> None:
        until = self.now_ms + ms
        while due := [(at, key) for key, (at, _) in self._timers.items() if at <= until]:
            at, key = min(due)
            self.now_ms = at
            self._timers.pop(key)[1]() if key in self._timers else None
        self.now_ms = until


class Lab:
    """One group and what its members hear."""

    def __init__(self, initial_delay_ms: int = 0) -> None:
        self.clock = Clock()
        self.written: list[GroupRecord] = []
        self.write_error = 0
        self.ids = iter(range(100))
        self.rules = self._rules(ClassicGroup("g"), initial_delay_ms)

    def _rules(self, group: ClassicGroup, delay_ms: int) -> GroupRules:
        return GroupRules(group, self.clock, self._write, lambda: str(next(self.ids)), delay_ms)

    def _write(self, record: GroupRecord) -> int:
        if not self.write_error:
            self.written.append(record)
        return self.write_error

    def reload(self) -> None:
        self.rules = self._rules(ClassicGroup.load("g", self.written[-1]), 0)
        self.rules.loaded()

    @property
    def group(self) -> ClassicGroup:
        return self.rules.group

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        knows: bool = True,
        protocols: dict[str, bytes] | None = None,
    ) -> list[Joined]:
        heard: list[Joined] = []
        request = JoinRequest(
            member_id=member_id,
            instance_id=instance_id,
            client_id="c",
            client_host="/h",
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols={"range": b""} if protocols is None else protocols,
            needs_known_id=not knows,
            can_skip_assignment=True,
        )
        self.rules.join(request, heard.append)
        return heard

    def sync(self, joined: Joined, assignments: dict[str, bytes] | None = None) -> list[Synced]:
        heard: list[Synced] = []
        self.rules.sync(joined.generation, joined.member_id, None, (None, None), assignments or {}, heard.append)
        return heard

    def stable(self, members: int = 1) -> list[Joined]:
        """A stable group."""
        waiting = [self.join() for _ in range(members)]
        self.clock.advance(DELAY_MS)
        joined = [each[0] for each in waiting]
        leader = next(each for each in joined if each.members)
        waiting_sync = [self.sync(each) for each in joined if each is not leader]
        assignments = {each.member_id: each.member_id.encode() for each in joined}
        assert self.sync(leader, assignments)[0].assignment == leader.member_id.encode()
        assert all(each and not each[0].error for each in waiting_sync)
        return joined


def test_a_member_first_asks_for_its_id() -> None:
    lab = Lab()
    asked = lab.join(knows=False)[0]
    assert asked.error == ErrorCode.MEMBER_ID_REQUIRED
    heard = lab.join(asked.member_id)
    lab.clock.advance(0)
    assert heard[0].error == 0
    assert heard[0].generation == 1
    assert heard[0].leader == asked.member_id


def test_an_id_that_nobody_comes_back_with_is_forgotten_after_a_session() -> None:
    lab = Lab()
    asked = lab.join(knows=False)[0]
    lab.clock.advance(SESSION_MS)
    assert lab.join(asked.member_id)[0].error == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_rebalance_waits_for_more_members() -> None:
    lab = Lab(DELAY_MS)
    first = lab.join()
    lab.clock.advance(DELAY_MS - 1)
    second = lab.join()
    lab.clock.advance(1)
    assert (first, second) == ([], [])  # the second one made it wait once more
    lab.clock.advance(DELAY_MS)
    assert first[0].generation == second[0].generation == 1
    assert len(first[0].members) == 2
    assert second[0].members == ()


def test_a_third_member_makes_the_others_rejoin() -> None:
    lab = Lab()
    first, second = lab.stable(2)
    third = lab.join()
    assert lab.rules.heartbeat(1, first.member_id, None) == ErrorCode.REBALANCE_IN_PROGRESS
    again = lab.join(first.member_id)
    assert third == []
    other = lab.join(second.member_id)
    assert {each[0].generation for each in (third, again, other)} == {2}
    assert lab.rules.heartbeat(1, first.member_id, None) == ErrorCode.ILLEGAL_GENERATION


def test_who_does_not_rejoin_within_the_rebalance_timeout_is_dropped() -> None:
    lab = Lab()
    first, second = lab.stable(2)
    again = lab.join(first.member_id)
    for _ in range(4):
        lab.clock.advance(REBALANCE_MS // 4)
        lab.rules.heartbeat(1, second.member_id, None)
    assert again[0].generation == 2
    assert list(lab.group.members) == [first.member_id]
    assert lab.rules.heartbeat(1, second.member_id, None) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_dropped_after_its_session() -> None:
    lab = Lab()
    lab.stable()
    lab.clock.advance(SESSION_MS - 1)
    assert str(lab.group.state) == "Stable"
    lab.clock.advance(1)
    assert str(lab.group.state) == "Empty"
    assert lab.written[-1].members == ()


def test_a_rebalance_answers_who_waits_for_assignments() -> None:
    lab = Lab()
    first = lab.join()
    lab.clock.advance(0)
    second = lab.join()
    again = lab.join(first[0].member_id)
    waiting = lab.sync(second[0])
    assert waiting == []
    lab.join()
    assert waiting[0].error == ErrorCode.REBALANCE_IN_PROGRESS
    assert again[0].generation == 2


def test_who_does_not_sync_is_dropped() -> None:
    lab = Lab()
    joined = lab.join()
    lab.clock.advance(0)
    for _ in range(4):
        lab.rules.heartbeat(1, joined[0].member_id, None)
        lab.clock.advance(REBALANCE_MS // 4)
    assert lab.group.members == {}


def test_a_new_coordinator_knows_the_last_stable_generation_only() -> None:
    lab = Lab()
    first, second = lab.stable(2)
    late = lab.join()
    lab.rules.unloaded()
    assert late[0].error == ErrorCode.NOT_COORDINATOR
    lab.reload()
    assert lab.group.state is GroupState.STABLE
    assert list(lab.group.members) == [first.member_id, second.member_id]
    assert lab.rules.heartbeat(1, first.member_id, None) == 0
    lab.clock.advance(SESSION_MS)
    assert lab.group.members == {}


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    lab = Lab()
    old = lab.join(instance_id="i")
    lab.clock.advance(0)
    assert lab.rules.group.leader == old[0].member_id
    heard: list[Synced] = []
    lab.rules.sync(1, old[0].member_id, "i", (None, None), {old[0].member_id: b"a"}, heard.append)
    new = lab.join(instance_id="i")
    assert new[0].generation == 1
    assert new[0].skip_assignment
    assert lab.rules.heartbeat(1, old[0].member_id, "i") == ErrorCode.FENCED_INSTANCE_ID
    lab.rules.sync(1, new[0].member_id, "i", (None, None), {}, heard.append)
    assert heard[-1].assignment == b"a"


def test_members_without_a_common_protocol_are_refused() -> None:
    lab = Lab()
    lab.stable()
    assert lab.join(protocols={"sticky": b""})[0].error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_commits_need_the_generation() -> None:
    lab = Lab()
    (member,) = lab.stable()
    group = lab.group
    assert group.commit_error(1, member.member_id, None, False) == 0
    assert group.commit_error(0, member.member_id, None, False) == ErrorCode.ILLEGAL_GENERATION
    assert group.commit_error(-1, "", None, False) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit_error(-1, "", None, True) == 0
    lab.rules.leave(member.member_id, None)
    assert group.commit_error(-1, "", None, False) == 0


def test_assignments_that_cannot_be_written_are_not_given_out() -> None:
    lab = Lab()
    joined = lab.join()
    lab.clock.advance(0)
    lab.write_error = ErrorCode.NOT_COORDINATOR
    answer = lab.sync(joined[0], {joined[0].member_id: b"all"})
    assert (answer[0].error, answer[0].assignment) == (ErrorCode.NOT_COORDINATOR, b"")
    assert lab.rules.heartbeat(1, joined[0].member_id, None) == ErrorCode.REBALANCE_IN_PROGRESS


def test_one_joins_a_group_that_all_have_left_in_a_rebalance() -> None:
    """As long as somebody is on its way the group is not empty yet (`supportsProtocols`: none of none has it)."""
    lab = Lab()
    (member,) = lab.stable()
    asked = lab.join(knows=False)[0]
    assert lab.rules.leave(member.member_id, None) == 0
    assert lab.group.state is GroupState.PREPARING
    heard = lab.join(asked.member_id)
    lab.clock.advance(REBALANCE_MS)
    assert [each.error for each in heard] == [0]
