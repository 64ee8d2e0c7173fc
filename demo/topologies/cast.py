"""Who takes part: a producer for each topic, where its clients move to, and for the chain one at its middle, too."""

from __future__ import annotations

from typing import Final, NamedTuple

from demo.commands import Part, Role, producer_options, python
from demo.topologies.settings import BACK, EAST, FIRST, SECOND, WEST, TopologySettings, Way


class Writer(NamedTuple):
    """A producer: `home` is the cluster on which it begins, `way` the mirror at whose gateway it goes on."""

    name: str
    home: str
    way: Way
    codec: str


WRITERS: Final = (
    Writer("orders-in-the-middle", "a", FIRST, "lz4"),
    Writer("orders-at-the-end", "a", SECOND, "zstd"),
    Writer("stock", "b", BACK, "gzip"),
    Writer("clicks-west", "a", WEST, "snappy"),
    Writer("clicks-east", "b", EAST, "none"),
)


def cast(settings: TopologySettings) -> tuple[Part, ...]:
    """Each producer twice: on its home cluster, and at the gateway, where its topic may have another name."""
    return tuple(part for writer in WRITERS for part in (_part(settings, writer, moved=False),
                                                         _part(settings, writer, moved=True)))  # fmt: skip


def name_of(writer: Writer, *, moved: bool) -> str:
    """Of its process, which is also in its records."""
    return f"{writer.name}-{'moved' if moved else 'home'}"


def _part(settings: TopologySettings, writer: Writer, *, moved: bool) -> Part:
    name, topic = name_of(writer, moved=moved), writer.way.mirror if moved else writer.way.topic

    def command(bootstrap: str, first: int) -> list[str]:
        options = [*producer_options(settings.rate, first, writer.codec), "--partitions", str(settings.partitions)]
        return [*python("producer_confluent", bootstrap, topic, name), *options]

    return Part(name, "confluent-kafka", Role.PRODUCER, "", command)
