"""Load 3: small requests, one record of 100 bytes in each: CPU per request, and latency at a steady rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.clients import rdkafka
from bench.contestants.contestant import Contestant
from bench.lab import Lab
from bench.loads.load import Metrics
from bench.loads.writing import WritingLoad
from bench.proc import Meter
from bench.topics import Topics

_RECORD_BYTES: Final = 100
# One record per request whatever the broker's pace, so that a record is a request.
_SETTINGS: Final[Mapping[str, str | int]] = {"linger.ms": 0, "batch.num.messages": 1}


class Small(WritingLoad):
    """Latency is the client's own, from `produce` to the acknowledgement."""

    name = "small"
    title = "small requests at a steady rate: 100-byte records, linger 0 (librdkafka)"
    share = 130.0
    warms_up = True
    intercepts = True

    def write(self, lab: Lab, through: Contestant, where: Topics, topic: str, scale: float) -> Metrics:
        """See `WritingLoad`."""
        rate = lab.profile.small_rate
        seen, charged = _send(through, where, topic, int(lab.profile.small_s * scale * rate), rate)
        return {**charged, "p50_ms": seen.p50_ms, "p99_ms": seen.p99_ms, "per_s": seen.records / seen.seconds}


class Flood(WritingLoad):
    """The same requests as fast as the broker takes them: the more come at once, the less each costs."""

    name = "flood"
    title = "small requests at full speed"
    share = 50.0
    intercepts = True

    def write(self, lab: Lab, through: Contestant, where: Topics, topic: str, scale: float) -> Metrics:
        """See `WritingLoad`."""
        records = int(lab.profile.small_s * scale * lab.profile.small_rate)
        seen, charged = _send(through, where, topic, records, 0)
        return {**charged, "per_s": seen.records / seen.seconds}


def _send(
    through: Contestant, where: Topics, topic: str, records: int, rate: int
) -> tuple[rdkafka.Written, dict[str, float]]:
    meter = Meter(through.pid)
    seen = rdkafka.write(through.bootstrap, topic, max(100, records), _RECORD_BYTES, rate=rate, properties=_SETTINGS)
    charged = meter.per(seen.records / 1e6, "cpu_s_per_million")
    where.wait_for_records(topic, seen.records, 5.0)
    return seen, charged
