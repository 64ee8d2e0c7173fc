"""Topics and groups that change sides as one, between real clusters: an application that reads and writes in one
transaction is moved there under load, and home, without one transaction that is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers.logs import create_topic, read_logs
from tests.support.clients.producers import ProducerProcess, read_committed
from tests.support.clients.transformer import Transformer
from tests.support.gateways.asking import answered
from tests.support.gateways.group_sides import GroupSides, group_sides
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
PARTITIONS = 2
_REFUSED = "refused to a transaction"
"""What a gateway logs of a transaction that would have two sides."""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupSides]:
    with group_sides(tmp_path_factory.mktemp("as-one"), "as-one") as made:
        yield made


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_there_and_home_under_load(sides: GroupSides, tmp_path: Path, protocol: str) -> None:
    topic, sink, app = f"in-{protocol}", f"out-{protocol}", f"app-{protocol}"
    names = (topic, sink)
    for name in names:
        create_topic(sides.source.bootstrap, name, partitions=PARTITIONS)
        sides.mirrored(name)
    load = ProducerProcess(
        "librdkafka",
        sides.gateway.bootstrap,
        topic,
        partitions=PARTITIONS,
        name=f"load-{protocol}",
        config={"enable.idempotence": True},
    )
    done: list[Transformer] = []

    def application(bootstrap: str) -> Transformer:
        done.append(Transformer(bootstrap, topic, sink, app, protocol=protocol, rewinds=True))
        return done[-1]

    with load as writer:
        with application(sides.source.bootstrap) as before:
            before.wait_for(50, 120.0)
            created = sides.gateway.api.post("/v3/links/west/groups", json={"group": app})
            assert created.is_success, created.text
            promote(sides, names, app)  # it waits for the member on the source
            waits = f"group '{app}': the group still has 1 member(s) on the source"
            wait_until(lambda: waits in sides.gateway.mirror("west", topic)["waiting_for"], 60, what=waits)
        with application(sides.gateway.bootstrap) as there:
            settled(sides, names, app, ("STOPPED", "FORWARD"), "PROMOTED")
            there.wait_for(50, 120.0)
            reverse(sides, names)
            there.wait_for(50, 120.0)
            promote(sides, names, app, direction="REVERSE")  # home, in the middle of its transactions
            settled(sides, names, app, ("ACTIVE", "FORWARD"), "ACTIVE")
        with application(sides.source.bootstrap) as after:
            after.wait_for(50, 120.0)
            writer.stop()
            after.wait_for(len(writer.acknowledged) - sum(one.committed for one in done), 120.0)
    assert not [error for one in done for error in one.errors]
    assert not writer.errors
    assert _REFUSED not in sides.gateway.log.read_text(errors="replace")
    written = [[record.key for record in log] for log in read_logs(sides.source.bootstrap, topic, PARTITIONS)]
    transformed = [[record.key for record in log] for log in read_committed(sides.source.bootstrap, sink, PARTITIONS)]
    assert transformed == written


def promote(sides: GroupSides, topics: tuple[str, ...], group: str, direction: str = "FORWARD") -> None:
    """Without `force`; REVERSE goes home."""
    body = {"mirror_topic_names": list(topics), "group_names": [group], "mirror_direction": direction}
    answer, _ = answered(lambda: sides.gateway.api.post("/v3/links/west/mirrors:promote", json=body))
    assert answer.is_success, answer.text


def reverse(sides: GroupSides, topics: tuple[str, ...]) -> None:
    """Mirror back, until the mirrors run."""
    body = {"mirror_topic_names": list(topics)}
    answer, _ = answered(lambda: sides.gateway.api.post("/v3/links/west/mirrors:reverse-and-start-mirror", json=body))
    assert answer.is_success, answer.text
    until(sides, topics, ("ACTIVE", "REVERSE"))


def settled(sides: GroupSides, topics: tuple[str, ...], group: str, state: tuple[str, str], its: str) -> None:
    """Topics and group are there; the group is as soon as the topics are."""
    until(sides, topics, state)
    assert sides.group(group)["state"] == its


def until(sides: GroupSides, topics: tuple[str, ...], state: tuple[str, str]) -> None:
    """Wait for the topics; what they wait for is said where they do not come to it."""
    shown: list[Any] = []

    def reached() -> bool:
        shown[:] = [sides.gateway.mirror("west", topic) for topic in topics]
        return all((one["mirror_status"], one["mirror_direction"]) == state for one in shown)

    try:
        wait_until(reached, 120, what=f"{topics} to be {state}")
    except AssertionError as exc:
        told = [[one["mirror_status"], one["waiting_for"], one["promote_error"]] for one in shown]
        raise AssertionError(f"{exc}: {told}") from None
