"""The report of an audit, as JSON: what was compared, when, how, what was found, and the sums that it rests on."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from gateway.jobs.audit.pieces import Span
from gateway.jobs.audit.sums import DIGEST_BYTES, SideSums, Sums
from gateway.jobs.audit.verdict import EXIT_CODES, AuditVerdict, PartitionVerdict, overall
from gateway.state.provenance import origin_of, writer_in_words
from gateway.version import VERSION

FORMAT: Final = "lockgate-audit/2"

_METHOD: Final = """
Of each partition both logs were read between the offsets that are named here: on the source up to its last stable
offset when the audit began, on the target what belongs to that, and whatever else it had there and was not written
since a cutover. The CRC-32C of every batch was checked.

Every offset is in one count: deleted while it was read, a record, a transaction marker, data of an aborted
transaction, or no record at all, which only compaction explains. Every record is in one count, too: equal to its
partner, different from it, or without one, by why. An audit whose counts do not add up to the offsets asked for is not
IDENTICAL.

A record's partner is the one at the same offset, brought to the target by the offset maps of all mirror periods that
the topic
has gone. Two batches at the same place with equal bytes (records, base and maximum timestamp, count, codec, timestamp
type) hold the same records. All others were decoded and compared record by record: key, value, headers in order,
timestamp.

Where a mirror writes schema ids anew (`schema_ids_through_map`: where in a record), the source's batches were
translated through
the link's id map before they were compared, and the digests are of what came of it. An id that is not in the map makes
the audit INCOMPLETE.

A record below the other log's start counts as explained when that topic's retention may have deleted it: it is older
than retention.ms, or the log holds retention.bytes. A copy that is filled now has no retention, so where it lacks such
a record its log must not start behind where its present mirror period began. In a compacted topic a record that one log
lacks counts as explained when that log has a later one with its key, or none at all of a key that ends in a tombstone.

A partition's digest is the sum, modulo 2^256, over its data batches: of each SHA-256 over its own digest and, as 8
bytes big-endian, its last offset on the target. A batch's own digest is SHA-256 over its attributes (codec and
timestamp type only), last offset delta, base and maximum timestamp and record count, big-endian as in its header, and
over its records as they are encoded.
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
    """An audit's outcome. Times of day are UTC; `compared_s`, `total_s`: seconds of comparing, and of all.

    `source_bytes`: size of the source's logs on disk, 0 when it was not told. `relation`: how offsets relate, in words.
    `provenance`: of each topic that a link mirrors, from where its records are. `sources`: the source's cluster id by
    the tag of each link there ever was.
    """

    source: ClusterFacts
    target: ClusterFacts
    topics: tuple[str, ...]
    relation: str
    fraction: float
    seed: int
    started: datetime
    finished: datetime
    compared_s: float
    total_s: float
    source_bytes: int
    spark_version: str
    cores: int
    findings: tuple[PartitionVerdict, ...]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[int, str] = field(default_factory=dict)

    @property
    def verdict(self) -> AuditVerdict:
        """The worst of all partitions."""
        return overall(self.findings)

    @property
    def exit_code(self) -> int:
        """Of the command."""
        return EXIT_CODES[self.verdict]

    @property
    def bytes_per_s(self) -> float:
        """Log bytes compared a second; each was read twice, once from each cluster."""
        return self.source_bytes * min(1.0, self.fraction) / self.compared_s if self.compared_s else 0.0

    @property
    def sums(self) -> Sums:
        """Those of all partitions."""
        found = Sums()
        for finding in self.findings:
            found.add(finding.sums)
        return found

    def totals(self) -> dict[str, Any]:
        """The sums of all partitions as JSON."""
        return {
            **_sums(self.sums),
            "before_start": sum(one.asked.before_start for one in self.findings),
            "since_cutover": sum(one.asked.since_cutover for one in self.findings),
            "closes": all(one.closes for one in self.findings),
        }

    def origins(self) -> dict[str, int]:
        """Records of the target by the cluster they are from, as its log says; "" for those of an unknown link.

        In a chain it is the cluster from which the link has them.
        """
        found = Counter[str]()
        for writer, records in sorted(self.sums.target.writers.items()):
            found[origin_of(writer, self.sources, self.target.cluster_id)] += records
        return dict(found)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "format": FORMAT,
            "verdict": str(self.verdict),
            "exit_code": self.exit_code,
            "started": self.started.isoformat(timespec="milliseconds"),
            "finished": self.finished.isoformat(timespec="milliseconds"),
            "source": asdict(self.source),
            "target": asdict(self.target),
            "topics": list(self.topics),
            "provenance": dict(self.provenance),
            "origins": self.origins(),
            "offsets": self.relation,
            "sample": {"fraction": self.fraction, "seed": self.seed},
            "totals": self.totals(),
            "digest": self.digest,
            "method": list(METHOD),
            "versions": {"lockgate": VERSION, "spark": self.spark_version, "python": platform.python_version()},
            "speed": {
                "seconds": round(self.total_s, 3),
                "seconds_batches": round(self.compared_s, 3),
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
            f"{one.asked.topic} {one.asked.partition} {one.identical_up_to} {digest_text(one.sums.source)}\n"
            for one in self.findings
        ]
        return sha256("".join(lines).encode()).hexdigest()


def to_json(report: Mapping[str, Any]) -> str:
    """The file's content; the same report always gives the same bytes, so that it can be signed."""
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def digest_text(side: SideSums) -> str:
    """In hex; "" for a side without a batch."""
    return side.digest.to_bytes(DIGEST_BYTES).hex() if side.batches else ""


def _sums(sums: Sums) -> dict[str, Any]:
    return {
        "source": _side(sums.source),
        "target": _side(sums.target),
        "compared": sums.compared,
        "different": sums.different,
        "decoded": sums.decoded,
        "equal_batches": sums.equal_batches,
        "pairs": _kinds(sums.pairs),
        "source_only": _kinds(sums.source_only),
        "target_only": _kinds(sums.target_only),
    }


def _side(side: SideSums) -> dict[str, Any]:
    """`writers`: records by who wrote them, in words."""
    counts = {each.name: getattr(side, each.name) for each in fields(side) if each.name not in ("digest", "writers")}
    writers = Counter[str]()
    for writer, records in sorted(side.writers.items()):
        writers[writer_in_words(writer)] += records
    return {**counts, "writers": dict(writers)}


def _kinds(kinds: Mapping[Any, int]) -> dict[str, int]:
    return {str(kind): count for kind, count in sorted(kinds.items()) if count}


def _span(span: Span) -> dict[str, int]:
    return {"start": span.low, "end": span.high}


def _partition(finding: PartitionVerdict) -> dict[str, Any]:
    one, sums, first = finding.asked, finding.sums, finding.sums.first
    return {
        "topic": one.topic,
        "target_topic": one.target_topic,
        "partition": one.partition,
        "verdict": str(finding.verdict),
        "sentence": finding.sentence,
        "identical_up_to": finding.identical_up_to,
        "reasons": list(finding.reasons),
        "schema_ids_through_map": list(one.through_ids),
        "closes": finding.closes,
        "asked": {"source": _span(one.source), "target": _span(one.target)},
        "source_log": _span(one.source_log),
        "target_log": _span(one.target_log),
        "before_start": one.before_start,
        "since_cutover": one.since_cutover,
        **_sums(sums),
        "source_digest": digest_text(sums.source),
        "target_digest": digest_text(sums.target),
        "first_difference": None
        if first is None
        else {
            "difference": str(first.kind),
            "source_offset": first.source_offset,
            "target_offset": first.at if first.target_offset is None else first.target_offset,
            "source": first.source,
            "target": first.target,
        },
    }
