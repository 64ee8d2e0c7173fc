"""What a change makes of a link, and why it cannot be."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from gateway.errors import BadRequest, Conflict
from gateway.links.rules.update import (
    FIXED,
    ConfigChange,
    ConfigOperation,
    altered,
    left_behind,
    require_running,
    why_not_paused,
)
from gateway.state.link_config import with_defaults
from gateway.state.records import GroupRecord, GroupState, LinkRecord, MirrorDirection, MirrorState
from tests.support.control.mirror_records import mirror_record

SEALED = "${encrypted:k1:AAAA}"
CLIENT = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": SEALED,
}
LINK = LinkRecord(
    name="l", link_id=1, source_cluster_id="S", client=CLIENT, configs={"ack": "both", "link.prefix": "w."}
)
DELETE = ConfigOperation.DELETE


def change(*changes: ConfigChange, client: dict[str, str] = CLIENT) -> object:
    return altered(LINK, client, changes)


def test_options_and_properties_are_told_apart() -> None:
    found = altered(LINK, CLIENT, [ConfigChange("ack", "source"), ConfigChange("sasl.password", "new")])
    assert found.configs == {"ack": "source", "link.prefix": "w."}
    assert found.client == {**CLIENT, "sasl.password": "new"}
    assert found.client_changed
    assert found.given == {"ack", "sasl.password"}


def test_a_second_name_is_the_same_option_and_delete_is_the_default() -> None:
    found = altered(LINK, CLIENT, [ConfigChange("offset.sync.enable", "true"), ConfigChange("ack", operation=DELETE)])
    assert found.configs == {"consumer.offset.sync.enable": "true", "link.prefix": "w."}
    assert not found.client_changed


@pytest.mark.parametrize("name", FIXED)
def test_what_is_fixed_says_why(name: str) -> None:
    values = {"link.prefix": "x.", "consumer.group.prefix.enable": "true", "mirror.offsets": "preserve"}
    with pytest.raises(BadRequest, match=f"{name}: cannot be changed, .*create another link"):
        change(ConfigChange(name, values.get(name, "client")))


def test_the_prefix_under_its_other_name_is_fixed_too_and_the_same_value_is_no_change() -> None:
    with pytest.raises(BadRequest, match="named by it"):
        change(ConfigChange("cluster.link.prefix", operation=DELETE))
    assert altered(LINK, CLIENT, [ConfigChange("cluster.link.prefix", "w.")]).configs == LINK.configs


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([ConfigChange("ack", "none")], "ack: 'none' is not one of"),
        ([ConfigChange("ack", "both"), ConfigChange("ack", "source")], "ack occurs twice"),
        ([ConfigChange("link.prefix", "w."), ConfigChange("cluster.link.prefix", "w.")], "occurs twice"),
        ([ConfigChange("throttle.bytes.per.second", "-1")], "throttle.bytes.per.second"),
    ],
)
def test_a_bad_change_is_refused(changes: list[ConfigChange], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        change(*changes)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bootstrap.servers", "evil:1"),
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.username", "v"),
        ("ssl.ca.location", "/ca.pem"),
        ("enable.ssl.certificate.verification", "false"),
    ],
)
def test_a_stored_secret_goes_nowhere_else(name: str, value: str) -> None:
    with pytest.raises(BadRequest, match=f"sasl.password: give it again, since {name} changes"):
        change(ConfigChange(name, value))
    with pytest.raises(BadRequest, match="give it again"):
        change(ConfigChange(name, value), client={**CLIENT, "sasl.password": "as it is"})
    again = altered(LINK, CLIENT, [ConfigChange(name, value), ConfigChange("sasl.password", "p")])
    assert again.client[name] == value


def test_a_reference_tells_nothing_and_waits_lead_nowhere() -> None:
    referring = {**CLIENT, "sasl.password": "${env:P}"}
    assert altered(LINK, referring, [ConfigChange("bootstrap.servers", "b:1")]).client_changed
    assert altered(LINK, CLIENT, [ConfigChange("request.timeout.ms", "5000")]).client_changed


@pytest.mark.parametrize("state", MirrorState)
def test_a_link_is_not_paused_while_a_mirror_is_needed(state: MirrorState) -> None:
    mirror = mirror_record(link="l", source_topic="t", mirror_topic="t", mirror_id=1, state=state)
    assert bool(why_not_paused([mirror])) is state.name.startswith("PENDING")


def test_what_takes_the_mirror_is_refused_while_the_link_is_paused() -> None:
    paused = LinkRecord(name="l", link_id=1, source_cluster_id="S", client={}, configs={"cluster.link.paused": "true"})
    require_running(LINK, ["t"])
    with pytest.raises(Conflict, match="mirror topic 't' with it; resume the link first: lockgate link resume l"):
        require_running(paused, ["t"])


def test_what_a_deletion_leaves_says_who_writes_where() -> None:
    def mirror(state: MirrorState, direction: MirrorDirection = MirrorDirection.FORWARD) -> object:
        return mirror_record(
            link="l", source_topic="s", mirror_topic="t", mirror_id=1, state=state, direction=direction
        )

    mirrors = [
        mirror(MirrorState.ACTIVE),
        mirror(MirrorState.STOPPED),
        mirror(MirrorState.ACTIVE, MirrorDirection.REVERSE),
    ]
    groups = [GroupRecord(link="l", group="g"), GroupRecord(link="l", group="p", state=GroupState.PROMOTED)]
    told = [one.then for one in left_behind(mirrors, groups)]  # type: ignore[arg-type]
    assert "clients of the gateway write to it there from then on" in told[0]
    assert "where it is written" in told[1]
    assert "'s' on the source is not mirrored to any more" in told[2]
    assert "gated no more" in told[3]
    assert told[4] == "reads on the target, as now"


def test_the_page_says_of_every_option_whether_it_can_be_changed() -> None:
    page = (Path(__file__).parents[4] / "docs" / "guides" / "links.md").read_text(encoding="utf-8")
    rows = page.partition("| config | can be changed |")[2].partition("\n\n")[0].splitlines()
    said: dict[str, set[bool]] = {name: set() for name in with_defaults({})}
    for _, names, answer, _ in (row.split("|") for row in rows if row.startswith("| ")):
        for pattern in re.findall(r"`([^`]+)`", names):
            for name in said:
                if fnmatch(name, pattern):
                    said[name].add(answer.strip().startswith("yes"))
    assert {name: answers for name, answers in said.items() if answers != {name not in FIXED}} == {}
