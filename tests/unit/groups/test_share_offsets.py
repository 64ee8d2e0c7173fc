"""Where a group stands: by its kind, committed offsets or start offsets, and never the other ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.groups import share_offsets as module
from gateway.groups.share_offsets import held_offsets, set_offsets
from gateway.kafka.commits import Committed
from gateway.kafka.share_groups import ShareStart
from gateway.state.records import GroupKind

KEY = ("t", 0)
CLUSTER: Any = object()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Mapping[Any, Any]]]:
    asked: list[tuple[str, Mapping[Any, Any]]] = []

    async def committed(cluster: Any, group: str) -> dict[Any, Committed]:
        return {KEY: Committed(1, 7, "m")}

    async def started(cluster: Any, group: str) -> dict[Any, ShareStart]:
        return {KEY: ShareStart(2, 5)}

    async def commit(cluster: Any, group: str, offsets: Mapping[Any, Any]) -> None:
        asked.append(("commit", offsets))

    async def alter(cluster: Any, group: str, offsets: Mapping[Any, Any]) -> None:
        asked.append(("alter", offsets))

    for name, fake in (
        ("committed_offsets", committed),
        ("share_offsets", started),
        ("commit_offsets", commit),
        ("alter_share_offsets", alter),
    ):
        monkeypatch.setattr(module, name, fake)
    return asked


@pytest.mark.parametrize("kind", [GroupKind.CONSUMER, GroupKind.STREAMS])
async def test_of_others_offsets_are_committed(sent: list[Any], kind: GroupKind) -> None:
    assert await held_offsets(CLUSTER, "g", kind) == {KEY: Committed(1, 7, "m")}
    await set_offsets(CLUSTER, "g", kind, {KEY: (3, "m")})
    assert sent == [("commit", {KEY: (3, "m")})]


async def test_of_a_share_group_start_offsets_are_set(sent: list[Any]) -> None:
    assert await held_offsets(CLUSTER, "g", GroupKind.SHARE) == {KEY: Committed(2, -1, "")}
    await set_offsets(CLUSTER, "g", GroupKind.SHARE, {KEY: (3, "")})
    await set_offsets(CLUSTER, "g", GroupKind.SHARE, {})  # nothing makes no group
    assert sent == [("alter", {KEY: 3})]
