"""The names of a run: its topics and its groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLAIN: Final = ("plain",)
SET: Final = ("tx-a", "tx-b")
TOPICS: Final[Mapping[str, int]] = {"plain": 2, "tx-a": 1, "tx-b": 1}
"""Topic -> partitions."""
AUTO: Final = "auto"
"""A topic that comes to be on the source in the runs that have `auto_create`."""
MENDED: Final = "mended"
"""A topic whose mirror is made to fail, and repaired."""
ORDERS: Final = "orders"
NORTH, EAST = "north.", "east."
"""A topic of two sources, and the prefixes of the links that mirror it to one target."""
CHAINED: Final = "chained"
"""A topic that is mirrored to the target, and from there to a third cluster."""
FANNED: Final = "fanned"
"""A topic that is mirrored to the target and to a third cluster."""
CROSSED: Final = "crossed"
"""A topic of the target that is mirrored to the source."""
OWNED: Final = "owned"
"""A topic whose owner goes on as if nobody migrated it, and the group that reads it."""
OWNED_GROUP: Final = "owned-readers"
GROUP: Final = "readers"
NEWCOMER: Final = "newcomer"
"""A role of every run's cast, and its group, which the source does not know."""
