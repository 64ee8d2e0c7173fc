"""A write of the state with an unknown outcome: nothing that stands on it goes on, or is undone, until it is known."""

from __future__ import annotations

import asyncio

from gateway.state.store import ProducerFenced, StateStore, StoreError

_AGAIN_S = 0.2


async def until_known(store: StateStore) -> bool:
    """Wait until the store's views are what is written. No limit of its own.

    Returns:
        False when another gateway leads by now: it has read what became of the write, and goes on from there.
    """
    while True:
        try:
            await store.resolve_outcome()
        except ProducerFenced:
            return False
        except StoreError:
            await asyncio.sleep(_AGAIN_S)
        else:
            return True
