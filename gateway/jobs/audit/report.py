"""The report of an audit, as JSON: what was compared, when, how, and what was found."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from gateway.jobs.audit.verdict import Finding, Verdict, overall
from gateway.jobs.schemas import BLOCK_BITS
from gateway.version import VERSION

FORMAT: Final = "lockgate-audit/1"

_METHOD: Final = f"""
Every record batch of the compared ranges was read from both clusters; its CRC-32C was checked.

A batch's digest is SHA-256 over its attributes (codec and timestamp type only), last offset delta, base and maximum
timestamp and record count, big-endian as in its header, and over its records as they are encoded. Left out are the
fields that a copy has of its own: offsets, leader epoch, producer id, epoch, sequence, checksum, the transactional bit.

Two batches are equal when both end at the same offset (the source's brought to the target by the offset map) and have
the same digest. Equal batches hold the same keys, values, headers and timestamps in the same order.

Where offsets are the same on both clusters and records are small, this is told of all batches of a block at once: by
the block's digest, and by the last offsets of its batches. A partition with a block that is not equal is compared batch
by batch.

Where a batch has no equal partner, the records of all batches from the first such block to the last were decoded on
both clusters and compared at each offset: key, value, headers in order, timestamp.

Transaction markers and data of aborted transactions, which consumers do not see, are left out.

A partition's digest is SHA-256 over the hex digests of its blocks in order, put together; a block's digest is SHA-256
over the hex digests of its batches in order, put together; block n holds the batches whose last target offset is in
n * 2^{BLOCK_BITS} .. (n + 1) * 2^{BLOCK_BITS} - 1.
"""

METHOD: Final = tuple(" ".join(step.split()) for step in _METHOD.split("\n\n"))
"""How it was compared, step by step."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """One of the two clusters."""

    cluster_id: str
    bootstrap_servers: str
    brokers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An audit's outcome. Times of day are UTC; `batches_s`, `total_s`: seconds of comparing batches, and of all.

    `source_bytes`: size of the source's logs on disk, 0 when it was not told. `mapped`: an offset map was used.
    """

    source: ClusterFacts
    target: ClusterFacts
    topics: tuple[str, ...]
    mapped: bool
    fraction: float
    seed: int
    started: datetime
    finished: datetime
    batches_s: float
    total_s: float
    source_bytes: int
    spark_version: str
    cores: int
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of all partitions."""
        return overall(list(self.findings))

    @property
    def bytes_per_s(self) -> float:
        """Log bytes compared a second; each was read twice, once from each cluster."""
        return self.source_bytes * min(1.0, self.fraction) / self.batches_s if self.batches_s else 0.0

    def total(self, name: str) -> int:
        """A count of `Counts`, summed up."""
        return sum(getattr(finding.counts, name) for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "format": FORMAT,
            "verdict": str(self.verdict),
            "started": self.started.isoformat(timespec="milliseconds"),
            "finished": self.finished.isoformat(timespec="milliseconds"),
            "source": asdict(self.source),
            "target": asdict(self.target),
            "topics": list(self.topics),
            "offsets": "through an offset map" if self.mapped else "equal on both clusters",
            "sample": {"fraction": self.fraction, "seed": self.seed},
            "totals": {
                name: self.total(name)
                for name in (
                    "source_batches",
                    "equal_batches",
                    "source_records",
                    "target_records",
                    "decoded",
                    "different",
                )
            },
            "digest": self.digest,
            "method": list(METHOD),
            "versions": {"lockgate": VERSION, "spark": self.spark_version, "python": platform.python_version()},
            "speed": {
                "seconds": round(self.total_s, 3),
                "seconds_batches": round(self.batches_s, 3),
                "source_log_bytes": self.source_bytes,
                "bytes_per_second": round(self.bytes_per_s),
                "cores": self.cores,
            },
            "partitions": [_partition(finding) for finding in self.findings],
        }

    @property
    def digest(self) -> str:
        """SHA-256 over `topic partition end digest` lines of the source: one number that stands for all of it."""
        lines = [
            f"{one.range.topic} {one.range.partition} {one.identical_up_to} {one.counts.source_digest}\n"
            for one in self.findings
        ]
        return sha256("".join(lines).encode()).hexdigest()


def to_json(report: Mapping[str, Any]) -> str:
    """The file's content; the same report always gives the same bytes, so that it can be signed."""
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def _partition(finding: Finding) -> dict[str, Any]:
    one = finding.range
    return {
        "topic": one.topic,
        "partition": one.partition,
        "verdict": str(finding.verdict),
        "sentence": finding.sentence,
        "identical_up_to": finding.identical_up_to,
        "compared": {"start": one.start, "end": one.end},
        "source_log": {"start": one.source_start, "end": one.source_end},
        "target_log": {"start": one.target_start, "end": one.target_end},
        **asdict(finding.counts),
        "notes": list(finding.notes),
        "first_divergence": finding.first_divergence,
    }
