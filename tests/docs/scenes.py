"""What is so before a block of a page: the scenes that its marks name (`<!-- setup: topics orders, link -->`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.docs.stage import LINK, PARTITIONS, Stage
from tests.support.brokers.logs import create_topic, log_ends
from tests.support.clients.group_lab import Reader, fill
from tests.support.clients.writer import Writer
from tests.support.waiting import wait_until

RECORDS: Final = 600
_RATE: Final = 20
_S: Final = 90.0


def play(stage: Stage, scene: str) -> None:
    """Do what a scene says: its name, and what it is about.

    Raises:
        KeyError: there is none of this name.
    """
    name, *about = scene.split()
    SCENES[name](stage, *about)


def _own_clusters(stage: Stage) -> None:
    stage.takes_clusters_of_its_own()


def _topics(stage: Stage, *names: str) -> None:
    """On the source, with records."""
    for name in names:
        create_topic(stage.source, name, partitions=PARTITIONS)
        fill(stage.source, name, RECORDS, partitions=PARTITIONS)


def _gateway(stage: Stage) -> None:
    if not stage.is_served:
        stage.leave_running("lockgate serve --config configs/minimal.yaml")


def _link(stage: Stage, name: str = LINK, *configs: str) -> None:
    """A gateway, and a link to the source with these configs."""
    _gateway(stage)
    options = " ".join(f"--config {one}" for one in configs)
    _done(stage, f"lockgate link create {name} --bootstrap source-1:9092 {options}")


def _mirrors(stage: Stage, *names: str) -> None:
    """Of topics that are on the source, level."""
    _done(stage, f"lockgate mirror create {' '.join(names)} --link {LINK} --wait")


def _promoted(stage: Stage, *names: str) -> None:
    """Written on the target."""
    _done(stage, f"lockgate mirror promote {' '.join(names)} --link {LINK} --yes")


def _writer(stage: Stage, topic: str, _at: str, _the: str, side: str) -> None:
    """`writer orders at the source`, or `at the gateway`: restarted there, if there is one."""
    if topic in stage.writers:
        stage.writers.pop(topic).stop()
    bootstrap = stage.gateway if side == "gateway" else stage.source
    writer = Writer(bootstrap, topic, partitions=PARTITIONS, rate=_RATE, config={"client.id": f"{topic}-writer"})
    stage.writers[topic] = writer.__enter__()
    writer.wait_for_acks(1, _S)


def _group(stage: Stage, group: str, _of: str, topic: str, _at: str, _the: str, side: str) -> None:
    """`group billing of orders at the source`, or `at the gateway`: restarted there, if there is one."""
    for reader in stage.readers.pop(group, []):
        reader.stop()
    bootstrap = stage.gateway if side == "gateway" else stage.source
    reader = Reader(bootstrap, group, topic, config={"client.id": f"{group}-1"})
    stage.readers[group] = [reader.__enter__()]
    if side == "source":
        reader.wait_for(1, _S)
    elif stage.asked(f"/v3/links/{LINK}/mirrors/{topic}"):
        path = f"/v3/links/{LINK}/groups/{group}"
        wait_until(lambda: stage.asked(path).get("state") == "PROMOTED", _S, what=f"{group} to be promoted")


def _waiting(stage: Stage, group: str, _of: str, topic: str) -> None:
    """A group that has read on the source, and whose member waits at the gateway."""
    _group(stage, group, "of", topic, "at", "the", "source")
    for reader in stage.readers.pop(group):
        reader.stop()
    stage.readers[group] = [Reader(stage.gateway, group, topic, config={"client.id": f"{group}-1"}).__enter__()]
    path = f"/v3/links/{LINK}/groups/{group}"
    wait_until(lambda: stage.asked(path).get("waiting"), _S, what=f"{group} to wait at its gate")


def _spoilt(stage: Stage, topic: str) -> None:
    """Somebody has written to the copy, and the mirror has found it: FAILED."""
    fill(stage.target, topic, PARTITIONS, partitions=PARTITIONS)
    fill(stage.source, topic, PARTITIONS, partitions=PARTITIONS)
    path = f"/v3/links/{LINK}/mirrors/{topic}"
    wait_until(lambda: stage.asked(path).get("mirror_status") == "FAILED", _S, what=f"{topic} to fail")


def _word(stage: Stage, name: str, value: str) -> None:
    """What a name of the page's stands for from here on: `word TOPIC payments`."""
    stage.words[name] = value


def _late(stage: Stage, topic: str) -> None:
    """A record that is written to the source beside the gateway."""
    ends = log_ends(stage.source, topic, PARTITIONS)
    fill(stage.source, topic, 1, partitions=PARTITIONS)
    wait_until(lambda: log_ends(stage.source, topic, PARTITIONS) != ends, _S, what="a late record")


def _done(stage: Stage, line: str) -> None:
    code, shown = stage.type_it(line)
    assert code == 0, f"{line}: ended with {code}\n{shown}"


SCENES: Final[Mapping[str, Callable[..., None]]] = {
    "own-clusters": _own_clusters,
    "topics": _topics,
    "gateway": _gateway,
    "link": _link,
    "mirrors": _mirrors,
    "promoted": _promoted,
    "writer": _writer,
    "group": _group,
    "late": _late,
    "word": _word,
    "spoilt": _spoilt,
    "waiting": _waiting,
}
