"""Links: what is checked, what is stored, and that a refusal changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from gateway.cutover.write_pause.rules.cutovers_seen import RETRIED_S
from gateway.errors import BadRequest, Conflict, NotFound, SourceUnreachable
from gateway.groups.gate.rules.gates import GateStatus
from gateway.kafka.access.delegation_tokens import TokenRefused
from gateway.links.links import has_credentials
from gateway.operations.link_policy import LinkPolicy
from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.operations.secrets.rules.references import REDACTED
from gateway.operations.secrets.sealing import SealingKeys
from gateway.state.errors import StoreError, StoreUncertain
from gateway.state.gateway_records import GatewayRecord
from gateway.state.records import GroupRecord, GroupState, MirrorState, ProducerEntry
from tests.support.control.control_plane import PROPERTIES, SOURCE, TARGET, Plane
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_kafka import FakeKafka
from tests.support.waiting import wait_until_async


def nothing_is_left(plane: Plane) -> bool:
    return not plane.log.kept and not plane.parts.sources.clusters and not plane.engine.links


async def test_create_stores_and_starts(plane):
    view = await plane.service.links.create("l", {**PROPERTIES, "ack": "both", "client.id": "mover"})

    record = plane.store.links["l"]
    assert record.link_id == 1
    assert record.source_cluster_id == "S"
    assert dict(record.client) == {**PROPERTIES, "client.id": "mover"}
    assert dict(record.configs) == {"ack": "both"}
    assert record.created_ms == plane.now_ms
    assert set(plane.engine.links) == {"l"}
    assert plane.parts.sources.clusters == {"l": plane.source}
    assert (view.state, view.configs["ack"], view.configs["groups.auto.promote"]) == ("ACTIVE", "both", "true")


@pytest.mark.parametrize(
    ("name", "properties", "message"),
    [
        ("a/b", PROPERTIES, "link name"),
        ("", PROPERTIES, "link name"),
        ("l", {**PROPERTIES, "ack": "none"}, "ack: "),
        ("l", {**PROPERTIES, "link.prefix": "x y"}, r"link\.prefix: "),
        ("l", {**PROPERTIES, "no.such": "x"}, r"no\.such: unknown client property"),
        ("l", {}, r"bootstrap\.servers: missing"),
        ("l", {"bootstrap.servers": "nonsense"}, r"bootstrap\.servers: "),
    ],
)
async def test_bad_input_changes_nothing(plane, name, properties, message):
    with pytest.raises(BadRequest, match=message):
        await plane.service.links.create(name, properties)

    assert nothing_is_left(plane)


async def test_an_unreachable_source_changes_nothing(plane):
    plane.source.down = True

    with pytest.raises(SourceUnreachable, match="source:9092 is not reachable: connection refused"):
        await plane.service.links.create("l", PROPERTIES)

    assert nothing_is_left(plane)
    assert plane.source.closed == 1


async def test_the_target_is_no_source(plane):
    plane.reachable[SOURCE] = FakeKafka("T")

    with pytest.raises(BadRequest, match="is the target cluster itself"):
        await plane.service.links.create("l", PROPERTIES)

    assert nothing_is_left(plane)
    assert plane.reachable[SOURCE].closed == 1


async def test_a_store_that_fails_changes_nothing(plane):
    plane.log.failures = [StoreError("target gone")]

    with pytest.raises(StoreError):
        await plane.service.links.create("l", PROPERTIES)

    assert nothing_is_left(plane)
    assert plane.source.closed == 1


async def test_a_name_is_given_once(plane):
    await plane.with_link()

    with pytest.raises(Conflict, match="exists already"):
        await plane.service.links.create("l", PROPERTIES)


async def test_of_two_creates_at_once_one_wins(plane):
    results = await asyncio.gather(
        *(plane.service.links.create("l", PROPERTIES) for _ in range(3)), return_exceptions=True
    )

    assert sorted(isinstance(result, Conflict) for result in results) == [False, True, True]
    assert plane.store.links["l"].link_id == 1


async def test_ids_are_never_given_again_even_after_a_delete(plane):
    await plane.with_link()
    await plane.service.links.delete("l")
    await plane.with_link()

    assert plane.store.links["l"].link_id == 2


async def test_secrets_are_not_shown(plane):
    plane.parts.sources.secrets = LinkSecrets(keys=SealingKeys([bytes(32)]))
    await plane.service.links.create(
        "l",
        {
            **PROPERTIES,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "me",
            "sasl.password": "hush",
        },
    )

    shown = plane.service.links.describe("l").client
    assert shown["sasl.password"] == REDACTED
    assert shown["sasl.username"] == "me"
    assert "hush" not in str(plane.log.kept)
    assert plane.parts.sources.secrets.config_of(plane.store.links["l"]).login() == ("me", "hush")


async def test_no_secret_is_stored_as_it_is(plane):
    """Without a key it is refused; a reference is stored, and shown."""
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    with pytest.raises(BadRequest, match="sasl.password: would be stored where others read it"):
        await plane.service.links.create("l", {**PROPERTIES, **login, "sasl.password": "hush"})
    assert nothing_is_left(plane)

    policy = LinkPolicy(variables=("LOCKGATE_LINK_{LINK}_*",))
    plane.parts.sources.secrets = LinkSecrets(policy, environment={"LOCKGATE_LINK_L_PW": "hush"})
    reference = "${env:LOCKGATE_LINK_L_PW}"
    view = await plane.service.links.create("l", {**PROPERTIES, **login, "sasl.password": reference})
    assert view.client["sasl.password"] == plane.store.links["l"].client["sasl.password"] == reference


@pytest.mark.parametrize(
    "login",
    [
        {"sasl.username": "me", "sasl.password": "hush"},
        {"sasl.jaas.config": 'x.PlainLoginModule required username="me" password="hush";'},
    ],
)
async def test_a_secret_that_a_gateway_could_not_read_is_refused(plane, login):
    plane.parts.sources.secrets = LinkSecrets(keys=SealingKeys([bytes(32)]))
    await plane.store.put(GatewayRecord(name="b", incarnation="1", role="node", peer="b:1", lease_ms=1))
    protocol = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    with pytest.raises(Conflict, match="gateways without the first key of links.key_file: b"):
        await plane.service.links.create("l", {**PROPERTIES, **protocol, **login})
    assert "l" not in plane.store.links
    await plane.service.links.create("l", PROPERTIES)


LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "${env:PW}",
}


async def test_a_login_is_lent_to_nobody_where_nobody_is_asked_who_may(plane):
    """Finding 10: each client of a target without an authorizer would write with the rights of the link's login."""
    plane.parts.sources.secrets = LinkSecrets(LinkPolicy(variables=("PW",)), environment={"PW": "hush"})
    plane.target.authorizes = False
    with pytest.raises(BadRequest, match=r"no authorizer.* set link\.allow\.unauthorized\.target=true"):
        await plane.service.links.create("l", {**PROPERTIES, **LOGIN})
    assert nothing_is_left(plane)
    assert plane.source.closed == 1
    await plane.service.links.create("opted", {**PROPERTIES, **LOGIN, "link.allow.unauthorized.target": "true"})
    await plane.service.links.create("plain", PROPERTIES)  # there clients may write by themselves, too
    plane.target.authorizes = True
    await plane.service.links.create("l", {**PROPERTIES, **LOGIN})


async def test_what_clients_write_as_themselves_takes_a_source_where_they_log_in(plane):
    """`link.identity=client`. Then the source asks who may write, so the target need not."""
    plane.parts.sources.secrets = LinkSecrets(LinkPolicy(variables=("PW",)), environment={"PW": "hush"})
    with pytest.raises(BadRequest, match=r"link\.identity: client .* security\.protocol=SASL_SSL"):
        await plane.service.links.create("l", {**PROPERTIES, "link.identity": "client"})
    assert nothing_is_left(plane)
    plane.target.authorizes = False
    acting: list[str] = []
    plane.parts.sources._act_for_clients = lambda cluster, link: acting.append(link)
    plane.source.refuse["require_tokens"] = TokenRefused("the cluster is too old")
    with pytest.raises(SourceUnreachable, match=r"^link\.identity=client: .*: the cluster is too old"):
        await plane.service.links.create("l", {**PROPERTIES, **LOGIN, "link.identity": "client"})
    assert nothing_is_left(plane)
    plane.source.refuse.clear()
    await plane.service.links.create("l", {**PROPERTIES, **LOGIN, "link.identity": "client"})
    plane.target.authorizes = True
    await plane.service.links.create("other", {**PROPERTIES, **LOGIN})
    assert acting == ["l"]


@pytest.mark.parametrize(
    ("client", "found"),
    [
        ({}, False),
        ({"security.protocol": "ssl", "ssl.ca.location": "ca"}, False),
        ({"security.protocol": "sasl_plaintext"}, True),
        ({"security.protocol": "SASL_SSL"}, True),
        ({"security.protocol": "SSL", "ssl.certificate.location": "crt"}, True),
    ],
)
def test_what_is_a_login(client, found):
    assert has_credentials(client) is found


async def finished(plane: Plane) -> None:
    """A link with a topic and a group, both promoted, and nobody left who retries."""
    mirror = await plane.with_mirror()
    await plane.store.put(
        changed(mirror, state=MirrorState.STOPPED, producers=((ProducerEntry(1, 0, 0, 4, 95),),)),
        GroupRecord(link="l", group="g", state=GroupState.PROMOTED),
    )
    plane.clock_s += RETRIED_S


async def test_delete_removes_link_mirrors_and_groups(plane):
    await finished(plane)
    plane.gates.enabled = True
    assert plane.gates.status("g") is GateStatus.OPEN

    await plane.service.links.delete("l")

    assert [key.split("/")[0] for key in plane.log.kept] == ["sequence", "origin", "sequence"]
    assert plane.routing.current.topics == {}
    assert not plane.engine.links
    assert plane.parts.sources.clusters == {}
    assert plane.gates.status("g") is GateStatus.UNKNOWN, "asked about again, if anything is mirrored"
    assert "orders" in plane.target.existing  # topics are the user's


async def test_delete_is_refused_while_a_group_is_gated_unless_forced(plane):
    await finished(plane)
    await plane.store.put(GroupRecord(link="l", group="h"))

    with pytest.raises(Conflict, match=r"1 mirror group\(s\) are not PROMOTED, such as 'h' \(ACTIVE\)"):
        await plane.service.links.delete("l")

    assert plane.store.links
    await plane.service.links.delete("l", force=True)


async def test_delete_is_refused_while_producers_may_retry_over_the_cutover_unless_forced(plane):
    await finished(plane)
    plane.clock_s -= 90
    plane.now_ms += 10**9  # a time of day decides nothing

    with pytest.raises(Conflict, match="wait 2 min, or use force"):
        await plane.service.links.delete("l")

    plane.clock_s += 90
    await plane.service.links.delete("l")


@pytest.mark.parametrize("state", [MirrorState.ACTIVE, MirrorState.PAUSED, MirrorState.FAILED])
async def test_delete_is_refused_while_a_mirror_lives_unless_forced(plane, state):
    mirror = await plane.with_mirror()
    await plane.store.put(replace(mirror, state=state))

    with pytest.raises(Conflict, match=f"not STOPPED, such as 'orders' \\({state}\\)"):
        await plane.service.links.delete("l")
    assert set(plane.engine.links) == {"l"}
    assert plane.store.mirrors

    await plane.service.links.delete("l", force=True)
    assert not plane.store.mirrors
    assert plane.engine.running == {}


async def test_a_running_promote_is_never_cut_off(plane):
    mirror = await plane.with_mirror()
    await plane.store.put(replace(mirror, state=MirrorState.PENDING_STOPPED))

    with pytest.raises(Conflict, match="being promoted"):
        await plane.service.links.delete("l", force=True)


async def test_unknown_link(plane):
    for work in (lambda: plane.service.links.describe("x"), lambda: plane.service.mirrors.list("x")):
        with pytest.raises(NotFound, match="link 'x'"):
            work()
    with pytest.raises(NotFound, match="link 'x'"):
        await plane.service.links.delete("x")


async def test_list_is_sorted_and_counts_mirrors(plane):
    plane.reachable["other:9092"] = FakeKafka("O")
    await plane.service.links.create("zzz", {"bootstrap.servers": "other:9092"})
    await plane.with_mirror("a")
    await plane.with_mirror("b")

    assert [(view.record.name, dict(view.mirror_counts)) for view in plane.service.links.list()] == [
        ("l", {"ACTIVE": 2}),
        ("zzz", {}),
    ]


async def test_what_was_stored_is_started_again_after_a_restart(plane):
    await plane.with_mirror("a")
    b = await plane.with_mirror("b")
    c = await plane.with_mirror("c")
    d = await plane.with_mirror("d")
    await plane.store.put(
        replace(b, state=MirrorState.PAUSED),
        replace(c, state=MirrorState.STOPPED),
        replace(d, state=MirrorState.PENDING_STOPPED),
        GroupRecord(link="l", group="g", state=GroupState.PROMOTED),
        GroupRecord(link="l", group="h"),
    )

    again = Plane(plane.log.kept)
    again.gates.enabled = True
    await again.start()

    assert again.engine.log[0] == ("start_link", "l")
    assert {topic for _, topic in again.engine.running} == {"a", "d"}
    assert {topic: route.phase.value for topic, route in again.routing.current.topics.items()} == {
        "a": "forward",
        "b": "forward",
        "c": "switched",
        "d": "forward",
    }
    assert (again.gates.status("g"), again.gates.status("h")) == (GateStatus.OPEN, GateStatus.CLOSED)
    await again.close()


async def test_a_lost_source_does_not_stop_the_start(plane):
    await plane.with_mirror()
    again = Plane(plane.log.kept)
    again.source.down = True

    await again.start()

    assert again.state() is MirrorState.ACTIVE
    assert ("l", "orders") in again.engine.running
    assert again.parts.sources.clusters == {"l": again.source}
    await again.close()


async def test_status_counts(plane):
    await plane.with_mirror()
    await plane.store.put(GroupRecord(link="l", group="g"))

    status = plane.service.status()

    assert (status.target_cluster_id, status.links, status.mirrors, status.groups) == (
        "T",
        {"l": "ACTIVE"},
        {"ACTIVE": 1},
        {"ACTIVE": 1},
    )
    assert status.gateway_id == plane.store.instance


async def test_fakes_know_both_clusters():
    assert Plane().reachable.keys() == {SOURCE, TARGET}


async def test_a_link_whose_creation_turns_out_to_be_stored_runs(plane: Plane) -> None:
    """Whoever has asked for it was told that this is not known."""
    await outcome_unknown(plane, plane.with_link())
    await wait_until_async(lambda: set(plane.engine.links) == {"l"}, 5.0)
    assert await plane.sources.reach(plane.store.links["l"]) is plane.source


async def test_a_link_whose_deletion_turns_out_to_be_stored_runs_no_more(plane: Plane) -> None:
    await plane.with_mirror()
    await outcome_unknown(plane, plane.service.links.delete("l", force=True))
    await wait_until_async(lambda: not plane.engine.links, 5.0)
    assert not plane.engine.running
    assert not plane.sources.clusters
    new = await plane.with_link()
    assert plane.engine.started_links() == {"l": new}


async def outcome_unknown(plane: Plane, work: Awaitable[object]) -> None:
    """The state's change is made, and its answer lost until the operation has ended."""
    plane.log.failures = [unknown := StoreUncertain("the target has not answered a change of the state")]
    plane.log.outcome = unknown
    with pytest.raises(StoreUncertain):
        await work
    plane.log.outcome = True
    await plane.store.outcome_known()
