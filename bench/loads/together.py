"""Load 6: writes are forwarded and mirrored at the same time, with `ack: source` and with `ack: both`."""

from __future__ import annotations

from collections.abc import Mapping

from bench.lab import Lab
from bench.loads.load import Load, Metrics, Turn
from bench.loads.produce import RECORD_BYTES, write_16k
from bench.loads.writing import LINK
from bench.proc import Meter
from bench.topics import fresh


class Together(Load):
    """CPU counts from the first write until the target has the last record."""

    name = "together"
    share = 36.0
    title = "forwarded and mirrored together, 16 KB batches"

    def turns(self, lab: Lab) -> Mapping[str, Turn]:
        """See `Load`."""
        return {"ack_source": lambda _: self._measure(lab, "source"), "ack_both": lambda _: self._measure(lab, "both")}

    def _measure(self, lab: Lab, ack: str) -> Metrics:
        topic = lab.on_source.create(fresh(self.name))
        records = int(lab.profile.together_mb * 1e6 / RECORD_BYTES)
        with lab.gateway.link(LINK, lab.source.bootstrap, ack=ack):
            lab.gateway.mirror(LINK, topic)
            meter = Meter(lab.gateway.pid)
            rate = write_16k(lab.gateway.bootstrap, topic, records)
            written = meter.wall_s
            lab.on_target.wait_for_records(topic, records, 60.0)
            lag = meter.wall_s - written
            charged = meter.per(records * RECORD_BYTES / 1e9, "cpu_s_per_gb")
        lab.on_source.drop(topic)
        lab.on_target.drop(topic)
        return {**charged, "mb_per_s": rate, "level_after_s": lag}
