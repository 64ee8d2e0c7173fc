"""Bodies of /v3/links/{link}/migration-discovery."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, Field

from gateway.migration.rules.draft import draft, draft_yaml
from gateway.migration.rules.picture import svg
from gateway.migration.rules.sets import Discovered, MoveSet, SetKind
from gateway.migration.rules.snapshot import GroupSeen, NotKnown
from gateway.migration.rules.ties import Node, Tie, TieKind, Why

MEMBERS: Final = 1_000
"""Of a group that are named."""


class NodeData(BaseModel):
    """A topic, a group or a transactional id of the source."""

    kind: TieKind
    name: str

    @classmethod
    def of(cls, node: Node) -> NodeData:
        """From discovery's."""
        return cls(kind=node.kind, name=node.name)


class TieData(BaseModel):
    """What ties two of them."""

    one: NodeData
    other: NodeData
    why: Why
    reason: str
    binds: bool = Field(description="They change sides together.")
    likely: bool = Field(description="By what names and hashes say, not by what a broker said.")

    @classmethod
    def of(cls, tie: Tie) -> TieData:
        """From discovery's."""
        return cls(
            one=NodeData.of(tie.one),
            other=NodeData.of(tie.other),
            why=tie.why,
            reason=tie.reason,
            binds=tie.binds,
            likely=tie.likely,
        )


class SetData(BaseModel):
    """What moves together. `after`: sets that go before it."""

    name: str
    kind: SetKind
    binds: bool = Field(description="It must move as one.")
    topics: list[str]
    groups: list[str]
    transactional_ids: list[str]
    after: list[str]
    ties: list[TieData]

    @classmethod
    def of(cls, one: MoveSet) -> SetData:
        """From discovery's."""
        return cls(
            name=one.name,
            kind=one.kind,
            binds=one.binds,
            topics=list(one.topics),
            groups=list(one.groups),
            transactional_ids=list(one.transactional_ids),
            after=list(one.after),
            ties=[TieData.of(tie) for tie in one.ties],
        )


class DiscoveredMember(BaseModel):
    """A member of a group. `instance_id`: of a static one, else ''."""

    client_id: str
    address: str
    instance_id: str


class DiscoveredSubtopology(BaseModel):
    """A part of a Streams application. `writes`, `changelogs`: told of streams groups (KIP-1071) only."""

    name: str
    reads: list[str]
    writes: list[str]
    changelogs: list[str]


class DiscoveredGroup(BaseModel):
    """A group with its members, as its coordinator names them."""

    name: str
    type: str
    member_count: int
    members: list[DiscoveredMember] = Field(description=f"At most {MEMBERS}.")
    subtopologies: list[DiscoveredSubtopology] = Field(description="Of a Streams application.")

    @classmethod
    def of(cls, group: GroupSeen) -> DiscoveredGroup:
        """From discovery's."""
        return cls(
            name=group.name,
            type=group.type,
            member_count=len(group.members),
            members=[
                DiscoveredMember(client_id=one.client_id, address=one.host.lstrip("/"), instance_id=one.instance_id)
                for one in group.members[:MEMBERS]
            ],
            subtopologies=[
                DiscoveredSubtopology(
                    name=one.name,
                    reads=sorted(one.reads),
                    writes=sorted(one.writes),
                    changelogs=sorted(one.changelogs),
                )
                for one in group.subtopologies
            ],
        )


class NotKnownData(BaseModel):
    """What could not be seen, and how to tell it."""

    what: str
    how_to_tell: str

    @classmethod
    def of(cls, one: NotKnown) -> NotKnownData:
        """From discovery's."""
        return cls(what=one.what, how_to_tell=one.how_to_tell)


class DiscoveryData(BaseModel):
    """What must move together on a link's source. Names are the source's. Nothing was changed."""

    kind: Literal["LockgateMigrationDiscovery"] = "LockgateMigrationDiscovery"
    link_name: str
    source_cluster_id: str
    time_ms: int
    sets: list[SetData] = Field(description="In an order in which they can go.")
    across: list[TieData] = Field(description="Ties between sets; none of them binds.")
    groups: list[DiscoveredGroup] = Field(description="Of the sets, with their members, clients and addresses.")
    not_known: list[NotKnownData]
    file: str = Field(description="A draft of the migration file, as YAML; empty when there is nothing to move.")
    svg: str = Field(description="The picture, when it was asked for.")

    @classmethod
    def of(cls, link: str, found: Discovered, *, picture: bool) -> DiscoveryData:
        """From what was found."""
        file = draft(found, link)
        return cls(
            link_name=link,
            source_cluster_id=found.cluster_id,
            time_ms=found.at_ms,
            sets=[SetData.of(one) for one in found.sets],
            across=[TieData.of(tie) for tie in found.across],
            groups=[DiscoveredGroup.of(one) for one in found.groups],
            not_known=[NotKnownData.of(one) for one in found.not_known],
            file="" if file is None else draft_yaml(found, file),
            svg=svg(found) if picture else "",
        )
