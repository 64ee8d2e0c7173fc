"""How other proxies are started: before the target's brokers, each with a port of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bench.contestants.others import KafkaProxy, Kroxylicious, OtherProxy
from bench.errors import BenchError
from bench.lab import OTHERS


@pytest.fixture
def program(tmp_path: Path) -> Path:
    found = tmp_path / "program"
    found.write_text("#!/bin/sh\nexec sleep 60\n")
    found.chmod(0o755)
    return found


@pytest.fixture
def made() -> Iterator[list[OtherProxy]]:
    all_: list[OtherProxy] = []
    yield all_
    for one in all_:
        one.close()


def test_kafka_proxy_has_a_port_before_each_broker(tmp_path: Path, program: Path, made: list[OtherProxy]) -> None:
    proxy = KafkaProxy(tmp_path, program, "h:1,h:2", [1, 2])
    made.append(proxy)
    command = list(proxy.command())
    assert command[:2] == [str(program), "server"]
    assert [each for each in command if each.startswith("h:")] == [
        f"h:1,127.0.0.1:{proxy.port}",
        f"h:2,127.0.0.1:{proxy.port + 1}",
    ]


def test_kroxylicious_knows_the_ids_of_the_brokers(tmp_path: Path, program: Path, made: list[OtherProxy]) -> None:
    proxy = Kroxylicious(tmp_path, program, "h:1", [1])
    made.append(proxy)
    config = yaml.safe_load(Path(list(proxy.command())[-1]).read_text())
    (cluster,) = config["virtualClusters"]
    assert cluster["targetCluster"] == {"bootstrapServers": "h:1"}
    (gateway,) = cluster["gateways"]
    assert gateway["portIdentifiesNode"] == {
        "bootstrapAddress": proxy.bootstrap,
        "nodeIdRanges": [{"name": "brokers", "start": 1, "end": 1}],
    }


@pytest.mark.parametrize("name", OTHERS)
def test_a_program_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(BenchError, match=f"--{name.replace('_', '-')} .*nowhere: there is no such file"):
        OTHERS[name](tmp_path, tmp_path / "nowhere", "h:1", [1])
