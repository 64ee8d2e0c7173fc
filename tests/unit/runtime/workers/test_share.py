"""What of a gateway's settings each of its processes has."""

from __future__ import annotations

import os

import pytest
from pydantic import ValidationError

from gateway.config.settings import Settings
from gateway.runtime.workers.share import Worker, settings_of, workers_of

TARGET = {"bootstrap.servers": "t:9092"}


def settings(**sections: object) -> Settings:
    return Settings(target=TARGET, **sections)  # type: ignore[arg-type]


def test_auto_is_one_for_each_core() -> None:
    assert workers_of(settings()) == 1
    assert workers_of(settings(workers=3)) == 3
    assert workers_of(settings(workers="auto")) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("workers", [0, 65, "all"])
def test_other_numbers_are_refused(workers: object) -> None:
    with pytest.raises(ValidationError, match="workers"):
        settings(workers=workers)


def test_a_name_with_the_mark_of_workers_is_refused() -> None:
    with pytest.raises(ValidationError, match="fleet.name"):
        settings(fleet={"name": "gw#2"})


def test_each_has_a_name_and_a_port_for_the_others_of_its_own() -> None:
    whole = settings(workers=3, fleet={"name": "gw", "peer_port": 7000})
    parts = [settings_of(whole, Worker(index, 3)).fleet for index in range(3)]
    assert [(part.name, part.peer_port) for part in parts] == [("gw", 7000), ("gw#2", 7001), ("gw#3", 7002)]
    assert settings_of(settings(fleet={"name": "gw"}), Worker(1, 2)).fleet.peer_port == 0


def test_the_gateways_limits_are_kept_by_all_of_them_together() -> None:
    whole = settings(limits={"connections": 101, "forwarded_bytes_per_second": 0, "held_request_bytes": 4 << 20})
    part = settings_of(whole, Worker(1, 2)).limits
    assert (part.connections, part.forwarded_bytes_per_second, part.held_request_bytes) == (51, 0, 2 << 20)
    assert part.held_answer_bytes == whole.limits.held_answer_bytes // 2
    assert part.elements_per_request == whole.limits.elements_per_request


def test_the_first_one_alone_serves_the_api() -> None:
    assert [Worker(index, 3).serves_api for index in range(3)] == [True, False, False]
