"""Tokens by owner: one creation at a time, kept while they are good, bounded."""

from __future__ import annotations

import asyncio

import pytest

from gateway.kafka.access.delegation_tokens import Token, TokenRefused
from gateway.kafka.access.token_book import AT_A_TIME, REFUSED_S, TokenBook
from gateway.kafka.connection.errors import ClusterUnavailable
from tests.support.waiting import wait_until_async


class Cluster:
    """Makes tokens, when it may."""

    def __init__(self, most: int = 100) -> None:
        self.now = 0.0
        self.made: list[str] = []
        self.ended: list[str] = []
        self.fault: Exception | None = None
        self.may = asyncio.Event()
        self.may.set()
        self.at_a_time = self.most_at_a_time = 0
        self.book = TokenBook("target", create=self.create, expire=self.expire, clock=lambda: self.now, most=most)

    async def create(self, owner: str) -> Token:
        self.at_a_time += 1
        self.most_at_a_time = max(self.most_at_a_time, self.at_a_time)
        await self.may.wait()
        self.at_a_time -= 1
        self.made.append(owner)
        if self.fault is not None:
            raise self.fault
        return Token(f"{owner}-{len(self.made)}", b"", 1_000.0)

    async def expire(self, token: Token) -> None:
        self.ended.append(token.token_id)


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


async def test_however_many_ask_one_token_is_made(cluster: Cluster) -> None:
    cluster.may.clear()
    waiting = [asyncio.create_task(cluster.book.get("alice")) for _ in range(50)]
    await wait_until_async(lambda: cluster.at_a_time == 1, what="the creation has begun")
    waiting[0].cancel()  # who goes away does not take it from the others
    cluster.may.set()
    found = await asyncio.gather(*waiting[1:])
    assert {token.token_id for token in found} == {"alice-1"}
    assert (await cluster.book.get("alice")).token_id == "alice-1"
    assert (cluster.book.made, len(cluster.book)) == (1, 1)


async def test_a_few_are_made_at_a_time(cluster: Cluster) -> None:
    cluster.may.clear()
    waiting = [asyncio.create_task(cluster.book.get(f"user-{n}")) for n in range(3 * AT_A_TIME)]
    await wait_until_async(lambda: cluster.at_a_time == AT_A_TIME, what="so many have begun")
    cluster.may.set()
    await asyncio.gather(*waiting)
    assert cluster.most_at_a_time == AT_A_TIME


async def test_a_token_is_renewed_when_three_quarters_are_over(cluster: Cluster) -> None:
    await cluster.book.get("alice")
    cluster.now = 749.0
    assert (await cluster.book.get("alice")).token_id == "alice-1"
    cluster.now = 751.0
    assert (await cluster.book.get("alice")).token_id == "alice-2"


async def test_while_the_cluster_is_away_the_old_one_does_and_a_refusal_ends_it(cluster: Cluster) -> None:
    await cluster.book.get("alice")
    cluster.now = 800.0
    cluster.fault = ClusterUnavailable("away")
    assert (await cluster.book.get("alice")).token_id == "alice-1"
    cluster.fault = TokenRefused("not any more")
    with pytest.raises(TokenRefused, match="not any more"):
        await cluster.book.get("alice")
    assert len(cluster.book) == 0
    cluster.fault = ClusterUnavailable("away")
    cluster.now = 2_000.0
    with pytest.raises(ClusterUnavailable, match="away"):
        await cluster.book.get("alice")


async def test_a_refusal_is_kept_for_a_while(cluster: Cluster) -> None:
    cluster.fault = TokenRefused("lacks an ACL")
    for _ in range(5):
        with pytest.raises(TokenRefused, match="lacks an ACL"):
            await cluster.book.get("bob")
    assert (len(cluster.made), cluster.book.refused) == (1, 1)
    cluster.now = REFUSED_S + 1
    cluster.fault = None
    assert (await cluster.book.get("bob")).token_id == "bob-2"


async def test_a_token_that_a_broker_refused_is_not_used_again(cluster: Cluster) -> None:
    token = await cluster.book.get("alice")
    cluster.book.forget("alice", token)
    cluster.book.forget("nobody", token)
    assert (await cluster.book.get("alice")).token_id == "alice-2"
    cluster.book.forget("alice", token)  # told late of the first one
    assert (await cluster.book.get("alice")).token_id == "alice-2"


async def test_who_was_not_asked_for_longest_goes_first_and_its_token_ends() -> None:
    cluster = Cluster(most=2)
    for owner in ("alice", "bob", "alice", "carol"):
        await cluster.book.get(owner)
    await wait_until_async(lambda: cluster.ended == ["bob-2"], what="bob's token has ended")
    assert len(cluster.book) == 2


async def test_all_end_when_the_gateway_stops(cluster: Cluster) -> None:
    for owner in ("alice", "bob"):
        await cluster.book.get(owner)
    await cluster.book.close()
    assert sorted(cluster.ended) == ["alice-1", "bob-2"]
    with pytest.raises(ClusterUnavailable):
        await cluster.book.get("alice")
