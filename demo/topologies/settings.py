"""What takes part in the demo of topologies: three clusters, five links, five topics.

orders    a → b → c       a chain; b's mirror topic is the source of c
stock     b → a           the other way, while orders goes a → b
clicks    a → c, b → c    two sources, topics of one name, told apart by a prefix
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from demo.settings import ROOT

CLUSTERS = ("a", "b", "c")
STATES_S = 180.0
NOT_WRITTEN = '{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"EXCLUDE"}]}'


@dataclass(frozen=True, slots=True)
class Way:
    """One mirror: of `topic` on cluster `source`, by the gateway before `target`, whose clients know it as `mirror`."""

    link: str
    source: str
    target: str
    topic: str
    prefix: str = ""

    @property
    def mirror(self) -> str:
        """Its name on the target."""
        return self.prefix + self.topic


FIRST = Way("a-b", "a", "b", "orders")
SECOND = Way("b-c", "b", "c", "orders")
BACK = Way("b-a", "b", "a", "stock")
WEST = Way("west", "a", "c", "clicks", "west.")
EAST = Way("east", "b", "c", "clicks", "east.")
WAYS = (FIRST, SECOND, BACK, WEST, EAST)

LOOPS = (
    Way("loop-1", "b", "a", "orders"),
    Way("loop-2", "b", "a", "orders", "again."),
    Way("loop-3", "a", "b", "stock"),
    Way("loop-4", "c", "b", "orders", "again."),
)
"""What must be refused: these records come from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySettings:
    """One run. `rate` is records per second and producer, `traffic_s` seconds of traffic before and after each cut."""

    partitions: int = 3
    rate: float = 100.0
    traffic_s: float = 4.0
    source_kafka: str = "3.9.1"
    target_kafka: str = "4.3.1"
    keep_data: bool = False
    folder: Path = ROOT / "build" / "demo-topologies"
    report: Path = ROOT / "build" / "demo-topologies.json"

    def kafka(self, cluster: str) -> str:
        """The version of a cluster: the one that everything comes from is the old one."""
        return self.source_kafka if cluster == "a" else self.target_kafka
