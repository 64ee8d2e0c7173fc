"""Who may write, who is gone, and from when one may say so: over the real store's rules, with clocks by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.errors import Conflict, NotFound
from gateway.fleet.registry import FleetRegistry
from gateway.fleet.rules.leases import presumable_after
from gateway.fleet.rules.membership import FleetMember, FleetRole
from gateway.state.errors import StoreError, StoreUncertain
from gateway.state.gateway_records import DEPARTED, OLDER, READS_TABLES
from tests.support.control.control_plane import Plane

LEASE_S = 60.0


class Book:
    """A registry led by gateway `me`."""

    def __init__(self, plane: Plane, me: str = "a", incarnation: str = "1") -> None:
        self.plane = plane
        self.now = 1000.0
        self.registry = FleetRegistry(
            plane.store,
            me,
            incarnation,
            clock=lambda: self.now,
            monotonic=lambda: self.now,
            wall_ms=lambda: 1,
            new_secret=lambda: "s",
        )

    async def generation(self, *names: str, incarnation: str = "1", place: str = "here") -> None:
        await self.members(*(member(name, incarnation, place) for name in names))

    async def members(self, *gateways: FleetMember) -> set[tuple[str, str]]:
        """A generation of these; returns who has a place."""
        kept = await self.registry.admit({f"id-{one.name}-{one.incarnation}": one for one in gateways})
        self.registry.begun()
        return {(one.name, one.incarnation) for one in kept.values()}


def member(name: str, incarnation: str = "1", place: str = "here") -> FleetMember:
    return FleetMember(
        name=name,
        incarnation=incarnation,
        role=FleetRole.NODE,
        peer=f"{name}:1",
        lease_s=LEASE_S,
        place=place,
        keys="k",
        bootstrap=f"{name}:9292",
    )


@pytest.fixture
def book(plane: Plane) -> Book:
    return Book(plane)


async def test_whoever_is_admitted_is_registered_before_and_must_acknowledge(book: Book) -> None:
    await book.generation("a", "b")
    assert set(book.plane.store.gateways) == {"a", "b"}
    assert book.plane.store.secret == "s"
    assert {record.bootstrap for record in book.plane.store.gateways.values()} == {"a:9292", "b:9292"}
    assert {record.keys for record in book.plane.store.gateways.values()} == {"k"}
    assert book.registry.required() == {"a", "b"}
    assert book.registry.lost() == ""


async def test_what_a_gateway_reads_is_registered_also_when_an_older_leader_has_not_written_it(book: Book) -> None:
    """Or its fleet would count as one of older gateways for as long as the process lives."""
    await book.members(member("a"), replace(member("b"), reads=READS_TABLES))
    assert {name: one.reads for name, one in book.plane.store.gateways.items()} == {"a": 1, "b": READS_TABLES}
    new = [replace(member(name), reads=READS_TABLES) for name in "ab"]
    await book.members(*new)
    assert {name: one.reads for name, one in book.plane.store.gateways.items()} == dict.fromkeys("ab", READS_TABLES)
    assert book.plane.store.tables_apart
    commits = len(book.plane.log.commits)
    await book.members(*new)
    assert len(book.plane.log.commits) == commits


async def test_nobody_is_admitted_when_it_cannot_be_written(book: Book) -> None:
    book.plane.log.failures = [StoreError("no")]
    with pytest.raises(StoreError):
        await book.generation("a", "b")
    assert not book.plane.store.gateways


async def test_a_lost_gateway_is_waited_for_until_its_lease_is_over(book: Book) -> None:
    await book.generation("a", "b")
    await book.generation("a")
    assert book.registry.required() == {"a", "b"}
    assert "gateway 'b' does not answer" in book.registry.lost()
    assert "lockgate gateway forget b" in book.registry.lost()
    book.now += presumable_after(LEASE_S) - 0.1
    assert book.registry.required() == {"a", "b"}
    book.now += 0.2
    assert book.registry.required() == {"a"}
    assert book.registry.lost() == ""
    await book.registry.forget_presumed()
    assert set(book.plane.store.gateways) == {"a"}
    assert book.registry.departed(book.now, ()) == 1
    assert book.registry.departed(book.now, ("b",)) == 0, "it had acknowledged"
    assert book.registry.last_departure() == book.now


async def test_a_generation_that_never_began_presumes_nobody(book: Book) -> None:
    """Its coordinator died before SyncGroup; the next one knows the generation before, and takes renewals of `b`."""
    await book.generation("a", "b")
    await book.registry.admit({"id-a-1": member("a")})  # JoinGroup was answered, SyncGroup was not
    renewed = book.now = book.now + 40.0
    assert book.registry.lease_left_s("b") is None
    book.now += 6.0
    await book.generation("a")
    book.now = renewed + LEASE_S
    assert book.registry.required() == {"a", "b"}, "it may write until then"
    book.now += 6.0 + presumable_after(LEASE_S) - LEASE_S + 0.1
    assert book.registry.required() == {"a"}


async def test_who_comes_back_in_a_generation_is_waited_for_whether_that_began_or_not(book: Book) -> None:
    await book.generation("a", "b")
    await book.generation("a")
    await book.registry.admit({"id-a-1": member("a"), "id-b-1": member("b")})
    book.now += 2 * LEASE_S
    assert book.registry.required() == {"a", "b"}


async def test_a_silent_member_is_lost_before_the_group_notices(book: Book) -> None:
    await book.generation("a", "b")
    book.registry.silent = frozenset({"b"})
    assert "runs on" in book.registry.lost()
    assert book.registry.lease_left_s("b") is None


async def test_a_new_process_of_a_name_replaces_the_old_one(book: Book) -> None:
    await book.generation("a", "b")
    await book.generation("a")
    await book.generation("a", "b", incarnation="2")
    assert book.registry.lost() == ""
    assert book.plane.store.gateways["b"].incarnation == "2"
    assert book.registry.departed(0.0, ()) == 2, "what the old ones had sent may land yet"


async def test_a_leader_that_comes_after_knows_who_was_replaced(plane: Plane) -> None:
    """The group counts the dead until their sessions end: one of them must not get the name of the living back."""
    for incarnation in "123":
        await Book(plane).members(member("a"), member("b", incarnation))
    assert plane.store.gateways["b"].older == ("2", "1")
    both = [member("a"), member("b"), member("b", "2"), member("b", "3")]
    assert await Book(plane).members(*both) == {("a", "1"), ("b", "3")}
    assert plane.store.gateways["b"].incarnation == "3"


async def test_who_was_never_registered_is_told_from_who_comes_next(plane: Plane) -> None:
    book = Book(plane)
    await book.members(member("b", "2"), member("b", "1"))
    assert list(plane.store.gateways["b"].older) == ["1"]
    since = plane.store.gateways["b"].since_ms
    await book.members(member("b", "2"), member("b", "3"), member("b", "1"))
    assert list(plane.store.gateways["b"].older) == ["2", "1"]
    assert await Book(plane).members(member("b", "1"), member("b", "3")) == {("b", "3")}
    assert plane.store.gateways["b"].since_ms == since


async def test_the_leader_itself_is_the_youngest_at_its_place(plane: Plane) -> None:
    """It has led alone, and registered itself; the group counts one that died before anybody admitted it."""
    book = Book(plane)
    await book.generation("a")
    assert await book.members(member("a"), member("a", "0")) == {("a", "1")}
    assert await book.members(member("a"), member("a", "2")) == {("a", "1")}
    assert plane.store.gateways["a"].older == ("2", "0")
    assert await book.members(member("a"), member("a", "3", "there")) == {("a", "3")}, "this may be a living one"


async def test_no_more_names_are_kept_than_a_session_can_see(plane: Plane) -> None:
    for incarnation in range(OLDER + 5):
        await Book(plane).members(member("b", f"{incarnation:03d}"))
    assert plane.store.gateways["b"].older == tuple(f"{one:03d}" for one in range(OLDER + 3, 3, -1))


@pytest.mark.parametrize("place", ["", "another machine"])
async def test_a_process_whose_name_was_taken_is_waited_for_until_its_lease_is_over(book: Book, place: str) -> None:
    """It may be cut off from the target alone, and write to the source: a name says nothing about who has it."""
    await book.generation("a", "b")
    await book.members(member("a"), member("b", "2", place))
    assert book.registry.required() == {"a", "b", "b@1"}
    assert "lockgate gateway forget b@1" in book.registry.lost()
    assert book.registry.departed(0.0, ()) == 0
    book.now += presumable_after(LEASE_S) - 0.1
    assert book.registry.lost()
    book.now += 0.2
    assert book.registry.lost() == ""
    assert book.registry.required() == {"a", "b"}
    await book.registry.forget_presumed()
    assert set(book.plane.store.gateways) == {"a", "b"}
    assert book.registry.departed(0.0, ()) == 1


async def test_without_a_lock_at_all_nothing_is_proved(book: Book) -> None:
    await book.generation("a", "b", place="")
    await book.members(member("a", place=""), member("b", "2", ""))
    assert book.registry.is_lost("b@1")


async def test_a_lease_that_the_group_goes_on_renewing_is_not_counted_down(book: Book) -> None:
    """Both processes of a name are members: the coordinator takes the old one's heartbeats until it is dropped."""
    await book.generation("a", "b")
    both = [member("b"), member("b", "2", "there")]
    assert await book.members(member("a"), *both) == {("a", "1"), ("b", "2")}
    book.now += 10 * LEASE_S
    assert "b@1" in book.registry.required()
    assert await book.members(member("a"), *both) == {("a", "1"), ("b", "2")}, "the old one does not come back"
    await book.members(member("a"), member("b", "2", "there"))
    book.now += presumable_after(LEASE_S)
    assert book.registry.lost() == ""


@pytest.mark.parametrize("by_itself", [True, False])
async def test_a_process_whose_name_was_taken_may_say_good_bye_or_be_forgotten(book: Book, by_itself: bool) -> None:
    await book.generation("a", "b")
    await book.members(member("a"), member("b", "2", "there"))
    if by_itself:
        await book.registry.forget("b", "it stops in order", incarnation="1")
    else:
        await book.registry.forget_absent("b@1", "an operator says so")
    assert set(book.plane.store.gateways) == {"a", "b"}
    assert book.plane.store.gateways["b"].incarnation == "2"
    assert book.registry.lost() == ""


async def test_the_next_leader_waits_for_it_too(book: Book) -> None:
    await book.generation("a", "b")
    await book.members(member("a"), member("b", "2", "there"))
    after = Book(book.plane)
    assert await after.members(member("a"), member("b"), member("b", "2", "there")) == {("a", "1"), ("b", "2")}
    assert after.registry.required() == {"a", "b", "b@1"}


async def test_only_a_lost_gateway_is_forgotten(book: Book) -> None:
    await book.generation("a", "b")
    for name in ("a", "b"):
        with pytest.raises(Conflict, match="stop it first"):
            await book.registry.forget_absent(name, "x")
    await book.generation("a")
    with pytest.raises(NotFound):
        await book.registry.forget("b", "x", incarnation="another")
    await book.registry.forget_absent("b", "x")
    assert book.registry.required() == {"a"}
    with pytest.raises(NotFound):
        await book.registry.forget("b", "x")


async def test_one_that_stops_in_order_is_waited_for_no_more(book: Book) -> None:
    await book.generation("a", "b")
    await book.registry.forget("b", "it stops in order", incarnation="1")
    assert book.registry.required() == {"a"}  # although the group has not noticed yet
    await book.generation("a", "b")  # which may agree on something else before
    assert book.registry.required() == set(book.plane.store.gateways) == {"a"}
    await book.generation("a", "b", incarnation="2")
    assert book.registry.required() == {"a", "b"}


async def test_the_next_leader_does_not_wait_for_one_that_stopped_in_order(book: Book) -> None:
    """The group counts it for as long as its session, and nobody would hear it say good-bye again."""
    await book.generation("a", "b")
    await book.registry.forget("b", "it stops in order", incarnation="1")
    after = Book(book.plane)
    await after.generation("a", "b")
    await after.generation("a")
    assert after.registry.required() == {"a"}
    assert after.registry.lost() == ""
    assert await after.members(member("a"), member("b"), member("b", "0")) == {("a", "1"), ("b", "0")}, "it is alive"
    assert book.plane.store.secret == "s"


async def test_who_was_killed_and_replaced_is_known_to_be_dead_when_its_successor_is_gone_too(plane: Plane) -> None:
    """A process was killed while it joined: the group counts it yet when the next one of its name has come and gone."""
    for incarnation in "12":
        await Book(plane, "b", incarnation).members(member("b", incarnation))
    last = Book(plane, "b", "3")
    assert await last.members(member("b", "3"), member("b", "0")) == {("b", "3")}, "it holds the lock that 0 held"
    await last.registry.forget("b", "it stops in order", incarnation="3")
    for ghost in "012":
        after = Book(plane, "a", "9")
        await after.members(member("a", "9"), member("b", ghost))
        await after.members(member("a", "9"))
        assert after.registry.required() == set(plane.store.gateways) == {"a"}
        assert after.registry.lost() == ""
    assert plane.store.secret == "s"
    new = member("b", "4")
    assert await Book(plane, "a", "9").members(member("a", "9"), new) == {("a", "9"), ("b", "4")}
    assert set(plane.store.gateways) == {"a", "b"}


async def test_no_more_goodbyes_are_kept_than_a_session_can_see(book: Book) -> None:
    for number in range(DEPARTED + 5):
        await book.members(member("a"), member("b", f"{number}"))
        await book.registry.forget("b", "it stops in order", incarnation=f"{number}")
    fleet = book.plane.store.fleet
    assert fleet is not None
    assert fleet.departed == tuple(f"{one}" for one in range(DEPARTED + 4, 4, -1))


@pytest.mark.parametrize("first", ["forget", "admit"])
async def test_one_that_comes_back_while_it_is_forgotten_must_acknowledge(book: Book, first: str) -> None:
    """A slow target: the delete is not written yet when the group has the gateway again, or the other way round."""
    await book.generation("a", "b")
    await book.generation("a")
    book.now += presumable_after(LEASE_S)
    both = [book.registry.forget_presumed(), book.generation("a", "b")]
    with book.plane.log.held():
        tasks = [asyncio.create_task(one) for one in (both if first == "forget" else reversed(both))]
        done, _ = await asyncio.wait(tasks, timeout=0.2)
        assert not done or first == "admit"
    await asyncio.gather(*tasks)
    assert book.registry.required() == {"a", "b"}
    assert set(book.plane.store.gateways) == {"a", "b"}
    assert book.registry.lost() == ""


async def test_a_delete_of_unknown_outcome_is_resolved_before_anybody_is_admitted(book: Book) -> None:
    await book.generation("a", "b")
    await book.generation("a")
    book.now += presumable_after(LEASE_S)
    book.plane.log.failures = [StoreUncertain("no answer")]
    with pytest.raises(StoreError):
        await book.registry.forget_presumed()
    await book.generation("a", "b")
    await book.plane.store.resolve_outcome()  # what was not known is known with the next write, whenever that is
    assert set(book.plane.store.gateways) == {"a", "b"}
    assert book.registry.required() == {"a", "b"}


async def test_the_next_leader_counts_anew(book: Book) -> None:
    await book.generation("a", "b")
    await book.generation("a")
    book.now += LEASE_S
    after = Book(book.plane)
    after.now = book.now
    await after.generation("a")
    assert after.registry.required() == {"a", "b"}
