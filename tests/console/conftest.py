"""A control plane without Kafka behind the console, and the browser before it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Browser

from gateway.kafka.transactions import TransactionDescription
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.open_transactions import TransactionsView
from gateway.state.records import GroupRecord, GroupState, MirrorError, MirrorState
from tests.support.control.secured_api import SecuredApi, secured_api
from tests.support.pages.browser import chromium
from tests.support.pages.console import measured


async def _transactions(access: ClusterAccess) -> Sequence[TransactionDescription]:
    return [TransactionDescription("payments-1", "Ongoing", 7, -1, 60_000, {"orders": (0,)})]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[SecuredApi]:
    """Two topics, one FAILED, three groups: one waits, one has passed, one failed."""
    viewer = tmp_path / "viewer"
    viewer.write_text("a-token-of-the-viewer")
    viewer.chmod(0o600)
    principals = [{"name": "watcher", "role": "viewer", "token_file": str(viewer)}]
    async with secured_api(tmp_path, principals=principals) as made:
        plane = made.plane
        await plane.with_mirror("orders", 3)
        plane.engine.numbers["l", "orders"] = [measured(0, 0), measured(1, 7), measured(2, 0)]
        await plane.with_mirror("refunds", 1)
        record = plane.store.mirrors["l", "refunds"]
        failed = replace(
            record, state=MirrorState.FAILED, error=MirrorError.TARGET_DIVERGED, error_message="it differs"
        )
        await plane.by_hand(
            failed,
            GroupRecord(link="l", group="billing"),
            GroupRecord(link="l", group="reports", state=GroupState.PROMOTED),
            GroupRecord(link="l", group="audit", state=GroupState.FAILED, error_message="no offsets"),
        )
        parts = plane.parts
        plane.service.transactions = TransactionsView(parts.records, parts.views, parts.target, reads=_transactions)
        plane.service.group_reports.members_on_source["l", "billing"] = 2
        yield made


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started
