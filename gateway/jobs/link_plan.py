"""What a running gateway tells a job of a link: both clusters, and its mirrors as the engine appends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from gateway.jobs.source.mirrors import MirrorSpec
from gateway.state.producer_ids import mirror_of
from gateway.state.records import (
    Cutover,
    MirrorCutover,
    MirrorDirection,
    MirrorFailback,
    MirrorMode,
    MirrorRecord,
    MirrorState,
    PartitionStart,
    Upstream,
)
from gateway.version import VERSION

_HIDDEN: Final = "********"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan:
    """A link. `source`, `target`: Kafka client properties. `group_prefix`: of mirror groups' names on the target.
    `records`: of its mirror topics, with all the ways they have gone. `groups`: states of mirror groups, by their name
    on the target. `sources`: cluster ids by the tag of every link there ever was. `ids`, `same_ids`: the id map of its
    schemas (`state/schemas/id_map.py`), where a mirror writes ids anew."""

    link: str
    source_cluster_id: str
    target_cluster_id: str
    source: Mapping[str, str]
    target: Mapping[str, str]
    mirrors: tuple[MirrorSpec, ...]
    group_prefix: str = ""
    records: tuple[MirrorRecord, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[int, str] = field(default_factory=dict)
    ids: Mapping[int, int] = field(default_factory=dict)
    same_ids: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def without_link(cls, source: Mapping[str, str], target: Mapping[str, str], topics: Sequence[str]) -> LinkPlan:
        """Two clusters whose topics have the same names and offsets on both, whoever copied them."""
        mirrors = tuple(
            MirrorSpec(source_topic=topic, mirror_topic=topic, producer_id=-1, starts=()) for topic in topics
        )
        return cls(link="", source_cluster_id="", target_cluster_id="", source=source, target=target, mirrors=mirrors)

    @property
    def names(self) -> dict[str, str]:
        """Source topic -> its mirror topic on the target."""
        return {mirror.source_topic: mirror.mirror_topic for mirror in self.mirrors}

    @property
    def provenance(self) -> dict[str, Any]:
        """From where the records of each topic are, by source topic, for a report; empty without a link.

        `link_tag`: in the producer id of each batch that the link has mirrored (`state/producer_ids.py` `mirror_of`).
        """
        upstream = {record.source_topic: record.upstream for record in self.records}
        return {
            mirror.source_topic: {
                "source_cluster_id": self.source_cluster_id,
                "link": self.link,
                "link_tag": writer.link_id,
                "producer_id": mirror.producer_id,
                "upstream": [asdict(each) for each in upstream.get(mirror.source_topic, ())],
            }
            for mirror in self.mirrors
            if (writer := mirror_of(mirror.producer_id)) is not None
        }

    @property
    def topic_ids(self) -> tuple[dict[str, str], dict[str, str]]:
        """Of the mirrors' topics, on the source and on the target, by their names there; "" where there is none."""
        of_source = {record.source_topic: record.source_topic_id for record in self.records}
        return of_source, {record.mirror_topic: record.mirror_topic_id for record in self.records}

    @property
    def translated(self) -> tuple[MirrorSpec, ...]:
        """The mirrors whose offsets differ on the two clusters: those that need the offset map."""
        return tuple(mirror for mirror in self.mirrors if mirror.is_translated)

    @classmethod
    def from_rest(
        cls, body: Mapping[str, Any], *, source: Mapping[str, str] = {}, target: Mapping[str, str] = {}
    ) -> LinkPlan:
        """From the answer of GET /v3/links/{link}/catch-up, or job-plan.

        Args:
            source, target: client properties that win over the gateway's: its secrets are not told, and its addresses
                may not be right from where the executors are.

        Raises:
            ValueError: a secret is needed and was not given; or the gateway is of another version, whose rules may not
                be this one's.
        """
        _same_version(body.get("version"))
        return cls(
            link=body["link_name"],
            source_cluster_id=body["source"]["cluster_id"],
            target_cluster_id=body["target"]["cluster_id"],
            source=_client("source", body["source"]["client"], source),
            target=_client("target", body["target"]["client"], target),
            mirrors=tuple(
                _mirror(
                    mirror,
                    body["link_name"],
                    skip_deleted=body.get("skip_deleted", False),
                    equal_offsets=body.get("equal_offsets", False),
                )
                for mirror in body["mirrors"]
            ),
            group_prefix=body["group_prefix"],
            records=tuple(_record(mirror, body["link_name"]) for mirror in body["mirrors"]),
            groups={group["group"]: group["state"] for group in body["groups"]},
            sources={int(tag): cluster for tag, cluster in body["sources"].items()},
            ids=dict(body.get("schema_ids", ())),
            same_ids=dict(body.get("same_schema_ids", ())),
        )


def changed_mirrors(before: LinkPlan, now: LinkPlan) -> list[str]:
    """What the gateway says of its mirrors that it said otherwise before, a line for each topic; as far as it matters
    to where an offset is on the other cluster."""
    known = {record.mirror_topic: record for record in now.records}
    found = []
    for record in before.records:
        later = known.get(record.mirror_topic)
        if later is None:
            found.append(f"mirror topic '{record.mirror_topic}' is not mirrored any more")
        elif _counted_by(record) != _counted_by(later):
            was, now_is = (f"{one.state}, mode {one.mode}" for one in (record, later))
            found.append(
                f"mirror topic '{record.mirror_topic}' was changed meanwhile (it was {was}, and is {now_is}): run the "
                "job again"
            )
    return found


def _counted_by(record: MirrorRecord) -> tuple[object, ...]:
    """What says something of offsets: not that a mirror is paused, or goes on."""
    ended = record.state if record.state in (MirrorState.STOPPED, MirrorState.FAILED) else None
    ids = record.mirror_id, record.source_topic_id, record.mirror_topic_id
    return ended, record.mode, ids, record.starts, record.cutover, record.failback


def _same_version(of_gateway: str | None) -> None:
    """Raises ValueError: the gateway is not of this job's version. What both do to a topic must be the same."""
    if of_gateway != VERSION:
        said = of_gateway or "older than its jobs' versions"
        raise ValueError(f"the gateway is {said}, this job {VERSION}: run the job of the gateway's version")


def _client(which: str, told: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    client = {**told, **given}
    hidden = [name for name, value in client.items() if value == _HIDDEN]
    if hidden:
        raise ValueError(f"{hidden[0]} of the {which} is a secret that the gateway does not tell; give it in a file")
    return client


def _mirror(body: Mapping[str, Any], link: str, *, skip_deleted: bool, equal_offsets: bool) -> MirrorSpec:
    return MirrorSpec(
        source_topic=body["source_topic_name"],
        mirror_topic=body["mirror_topic_name"],
        producer_id=body["producer_id"],
        starts=_starts(body["starts"]),
        mode=body["mode"],
        link=link,
        mirror_id=body["mirror_id"],
        period=body["period"],
        implied=tuple((source, target) for source, target in body["implied"]),
        compacted=body["compacted"],
        skip_deleted=skip_deleted,
        equal_offsets=equal_offsets,
    )


def _record(body: Mapping[str, Any], link: str) -> MirrorRecord:
    """As the gateway keeps it, as far as it tells."""
    told = body["history"]
    return MirrorRecord(
        link=link,
        source_topic=body["source_topic_name"],
        mirror_topic=body["mirror_topic_name"],
        mirror_id=body["mirror_id"],
        source_topic_id=told["source_topic_id"],
        mirror_topic_id=told["mirror_topic_id"],
        state=MirrorState(body["mirror_status"]),
        mode=MirrorMode(body["mode"]),
        compacted=body["compacted"],
        starts=_starts(body["starts"]),
        restore_configs=told["restore_configs"],
        cutover=MirrorCutover(
            stopped_at=tuple(told["stopped_at"]),
            stopped_copy_at=tuple(told["stopped_copy_at"]),
            not_mirrored=tuple(told["not_mirrored"]),
        ),
        failback=MirrorFailback(
            direction=MirrorDirection(told["direction"]),
            epoch=told["failback_epoch"],
            handed_over_at=tuple(told["handed_over_at"]),
            handed_over_from=tuple(told["handed_over_from"]),
            reverse_starts=_starts(told["reverse_starts"]),
            cutovers=tuple(Cutover(tuple(cutover["source"]), tuple(cutover["target"])) for cutover in told["cutovers"]),
        ),
        upstream=tuple(
            Upstream(up["cluster_id"], up["link"], up["topic"], tuple(up["until_offsets"]))
            for up in told.get("upstream", ())
        ),
        translates_ids=tuple(told.get("translates_ids", ())),
    )


def _starts(body: Sequence[Mapping[str, int]]) -> tuple[PartitionStart, ...]:
    return tuple(PartitionStart(start["source_start"], start["pad_to"]) for start in body)
