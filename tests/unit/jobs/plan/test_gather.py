"""The inventory: what one group, or one topic, keeps for itself does not hide the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.jobs.plan import gather
from gateway.jobs.plan.gather import InventoryGatherer, offsets_of, transactional_ids
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, UnsupportedVersion
from gateway.kafka.groups import DEAD, GroupListing, GroupView
from protocol.errors import ErrorCode

SOURCE: Any = None
REFUSED = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "DescribeGroups: GROUP_AUTHORIZATION_FAILED")
SILENT = ClusterUnavailable("OffsetFetch: no answer")


def of_groups(monkeypatch: pytest.MonkeyPatch, states: dict[str, str | Exception]) -> InventoryGatherer:
    async def listed(_: object) -> tuple[GroupListing, ...]:
        return tuple(GroupListing(name, "consumer", "", "") for name in states)

    async def described(_: object, name: str) -> GroupView:
        found = states[name]
        if isinstance(found, Exception):
            raise found
        return GroupView(group=name, state=found, type="classic", protocol_type="consumer")

    async def committed(_: object, name: str) -> dict[tuple[str, int], object]:
        return {("t", 0): 5}

    monkeypatch.setattr(gather, "list_groups", listed)
    monkeypatch.setattr(gather, "describe_group", described)
    monkeypatch.setattr(gather, "committed_offsets", committed)
    return InventoryGatherer(SOURCE)


async def test_a_group_that_is_not_told_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may describe the cluster lists every group, and may not describe each; a transaction of another one hangs."""
    this = of_groups(monkeypatch, {"a": "Stable", "b": REFUSED, "c": SILENT, "gone": DEAD, "z": "Empty"})

    found = await this._groups()

    assert [one.name for one in found] == ["a", "z"]
    assert this.untold == [
        f"group b ({REFUSED}): it is not in this plan",
        f"group c ({SILENT}): it is not in this plan",
    ]


async def test_a_cluster_that_does_not_answer_is_not_asked_for_every_group(monkeypatch: pytest.MonkeyPatch) -> None:
    this = of_groups(monkeypatch, {f"g{number}": SILENT for number in range(100)})
    with pytest.raises(ClusterUnavailable):
        await this._groups()


class Coordinators:
    """Brokers, by number what each answers to ListTransactions."""

    def __init__(self, *told: tuple[str, ...] | Exception) -> None:
        self._told = told
        self.view = SimpleNamespace(brokers=range(len(told)))

    async def request(self, _: object, node_id: int) -> Any:
        told = self._told[node_id]
        if isinstance(told, Exception):
            raise told
        return SimpleNamespace(error_code=0, transaction_states=[SimpleNamespace(transactional_id=one) for one in told])


async def test_transactional_ids_of_the_brokers_that_tell() -> None:
    """One that is too old hid those of all others."""
    old: Any = Coordinators(UnsupportedVersion("before 3.0"), ("b", "a"), ("c",))
    assert await transactional_ids(old) == ("a", "b", "c")
    silent: Any = Coordinators(UnsupportedVersion("before 3.0"), SILENT)
    with pytest.raises(ClusterUnavailable):
        await transactional_ids(silent)


def test_offsets_of_each_topic() -> None:
    assert offsets_of({("a", 0): (3, 10), ("a", 1): (0, 1), ("b", 0): (7, 7)}) == {"a": 8, "b": 0}
