"""The loads in the order in which they run: what matters most comes first, what leaves a mark on the brokers last."""

from __future__ import annotations

from bench.loads.connections import Connections
from bench.loads.fetch import Fetch
from bench.loads.gate import Gate
from bench.loads.load import Load
from bench.loads.metadata import Metadata
from bench.loads.mirroring import Mirroring
from bench.loads.produce import Produce, write_1m, write_16k, write_rdkafka
from bench.loads.promote import Promote
from bench.loads.rest import Rest
from bench.loads.small import Flood, Small
from bench.loads.tls import FetchTls, ProduceTls
from bench.loads.together import Together


def all_loads() -> list[Load]:
    """New objects: a load keeps what it has prepared."""
    return [
        Rest(),
        Produce("produce_16k", "produce, 1 KB records, 16 KB batches (ProducerPerformance)", write_16k, main=True),
        Fetch(),
        ProduceTls(),
        FetchTls(),
        Small(),
        Flood(),
        Mirroring("mirror_16k", "mirror a backlog, 16 KB batches", last=False),
        Mirroring("mirror_1m", "mirror a backlog, 1 MB batches", last=True),
        Promote(),
        Produce("produce_1m", "produce, 1 MB batches (ProducerPerformance)", write_1m, big=True),
        Produce("produce_16k_librdkafka", "produce, 16 KB batches (librdkafka)", write_rdkafka),
        Together(),
        Connections(),
        Gate(),
        Metadata(),
    ]
