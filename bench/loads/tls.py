"""Clients that come by TLS: what ends it for them, beside HAProxy ending it (kTLS is in neither).

The brokers are reached in clear, by both.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.clients import java_tools
from bench.contestants.contestant import Contestant
from bench.lab import Lab
from bench.loads.load import Load, Metrics, Turn
from bench.loads.produce import RECORD_BYTES, write_16k
from bench.proc import Meter
from bench.topics import fresh

_BATCH = {"batch.size": 16_384}


class _TlsLoad(Load):
    share = 40.0
    warms_up = True

    def turns(self, lab: Lab) -> Mapping[str, Turn]:
        """See `Load`."""
        return {each.name: self._turn(lab, each) for each in lab.tls_passers}

    def _turn(self, lab: Lab, contestant: Contestant) -> Turn:
        raise NotImplementedError


class ProduceTls(_TlsLoad):
    """As `produce_16k`."""

    name = "produce_tls"
    title = "produce over TLS, 16 KB batches (ProducerPerformance)"

    def _turn(self, lab: Lab, contestant: Contestant) -> Turn:
        def turn(scale: float) -> Metrics:
            topic = lab.on_target.create(fresh(self.name))
            records = max(100, int(lab.profile.produce_mb * 1e6 * scale / RECORD_BYTES))
            meter = Meter(lab.ready(contestant).pid)
            settings: dict[str, str | int] = {**_BATCH, **lab.certificate.client}
            done = java_tools.produce(contestant.bootstrap, topic, records, RECORD_BYTES, settings)
            metrics = {"mb_per_s": done.mb_per_s, **meter.per(records * RECORD_BYTES / 1e9, "cpu_s_per_gb")}
            lab.on_target.wait_for_records(topic, records, 5.0)
            lab.on_target.drop(topic)
            return metrics

        return turn


class FetchTls(_TlsLoad):
    """As `fetch`."""

    name = "fetch_tls"
    title = "fetch over TLS (ConsumerPerformance)"

    def __init__(self) -> None:
        self._topic = ""

    def prepare(self, lab: Lab) -> None:
        """See `Load`."""
        self._topic = lab.on_target.create(fresh(self.name))
        write_16k(lab.target.bootstrap, self._topic, self._records(lab))

    def finish(self, lab: Lab) -> None:
        """See `Load`."""
        lab.on_target.drop(self._topic)

    def _records(self, lab: Lab) -> int:
        return int(lab.profile.fetch_mb * 1e6 / RECORD_BYTES)

    def _turn(self, lab: Lab, contestant: Contestant) -> Turn:
        def turn(scale: float) -> Metrics:
            wanted = int(self._records(lab) * scale)
            meter = Meter(lab.ready(contestant).pid)
            read = java_tools.consume(contestant.bootstrap, self._topic, wanted, lab.certificate.client)
            return {"mb_per_s": read.mb_per_s, **meter.per(read.records * RECORD_BYTES / 1e9, "cpu_s_per_gb")}

        return turn
