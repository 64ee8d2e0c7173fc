"""Which API versions a broker serves, by Kafka version: what 3.9.1 and 4.3.1 say themselves in ApiVersions.

Left out are client telemetry (offered only with a metrics reporter), and share and streams groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from protocol.apis import ApiKey

Ranges = Mapping[int, tuple[int, int]]

_V3_9: Final[Ranges] = {
    0: (0, 11), 1: (0, 17), 2: (0, 9), 3: (0, 12), 8: (0, 9), 9: (0, 9), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 5), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (0, 7), 20: (0, 6), 21: (0, 2),
    22: (0, 5), 23: (0, 4), 24: (0, 5), 25: (0, 4), 26: (0, 4), 27: (0, 1), 28: (0, 4), 29: (0, 3), 30: (0, 3),
    31: (0, 3), 32: (0, 4), 33: (0, 2), 34: (0, 2), 35: (0, 4), 36: (0, 2), 37: (0, 3), 38: (0, 3), 39: (0, 2),
    40: (0, 2), 41: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 0), 46: (0, 0), 47: (0, 0), 48: (0, 1),
    49: (0, 1), 50: (0, 0), 51: (0, 0), 55: (0, 2), 57: (0, 1), 60: (0, 1), 61: (0, 0), 64: (0, 0), 65: (0, 0),
    66: (0, 1), 68: (0, 0), 69: (0, 0), 74: (0, 0), 75: (0, 0), 80: (0, 0), 81: (0, 0),
}  # fmt: skip
_V4_3: Final[Ranges] = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2),
    22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 5), 29: (1, 3), 30: (1, 3),
    31: (1, 3), 32: (1, 4), 33: (0, 2), 34: (1, 2), 35: (1, 5), 36: (0, 2), 37: (0, 3), 38: (1, 3), 39: (1, 2),
    40: (1, 2), 41: (1, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1),
    49: (0, 1), 50: (0, 0), 51: (0, 0), 55: (0, 2), 57: (0, 2), 60: (0, 2), 61: (0, 0), 64: (0, 0), 65: (0, 0),
    66: (0, 2), 68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0), 80: (0, 1), 81: (0, 0),
}  # fmt: skip

RANGES: Final[Mapping[str, Ranges]] = {"3.9.1": _V3_9, "4.3.1": _V4_3}
"""(lowest, highest) version by API key, by Kafka version, as ApiVersions tells it."""

_NOT_BELOW: Final[Mapping[int, int]] = {ApiKey.PRODUCE: 3, ApiKey.FETCH: 4, ApiKey.LIST_OFFSETS: 1}
"""First version served here where ApiVersions names a lower one. 4.x says 0 for Produce for librdkafka's sake, and
refuses what is below 3; 3.9.1 would convert records to formats v0 and v1 there, which nobody asks of the model."""


def served(version: str) -> Ranges:
    """The API versions that a broker of this Kafka version serves; for any other it closes the connection."""
    return {key: (max(low, _NOT_BELOW.get(key, 0)), high) for key, (low, high) in RANGES[version].items()}
