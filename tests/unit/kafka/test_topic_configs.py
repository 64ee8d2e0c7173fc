"""Some configs of many topics: in bounded questions, and what was told before is the same object."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.kafka import topics
from gateway.kafka.admin import AdminError
from gateway.kafka.topics import TopicConfigs
from protocol.apis import ApiKey
from protocol.messages import DescribeConfigsResponse
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import Request
from tests.support.fakes.fake_cluster import FakeCluster

KEYS = ("retention.ms", "cleanup.policy", "unknown.to.it")


class Broker:
    """`of`: topic -> retention.ms, "" where there is no such topic."""

    def __init__(self, fake: FakeCluster) -> None:
        self.of = {f"t{number}": "5" for number in range(5)}
        self._fake = fake
        fake.on(ApiKey.DESCRIBE_CONFIGS, self._described)

    def questions(self) -> list[list[str]]:
        asked = self._fake.asked(ApiKey.DESCRIBE_CONFIGS)
        return [[each.resource_name for each in request.message.resources] for request in asked]

    def _described(self, request: Request) -> Any:
        result = DescribeConfigsResponse.DescribeConfigsResult
        entry = result.DescribeConfigsResourceResult
        results = []
        for asked in request.message.resources:
            told = {"retention.ms": self.of[asked.resource_name], "cleanup.policy": "delete", "secret": None}
            configs = [
                entry(name=name, value=value, read_only=False, config_source=1, is_sensitive=False, synonyms=[])
                for name, value in told.items()
                if name in asked.configuration_keys or name == "secret"
            ]
            code = 0 if self.of[asked.resource_name] else 3
            results.append(
                result(
                    error_code=code,
                    error_message=None,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=[] if code else configs,
                )
            )
        return DescribeConfigsResponse(throttle_time_ms=0, results=results)


@pytest.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(1) as cluster:
        yield cluster


async def test_what_was_told_before_is_the_same_object(fake: FakeCluster, client: OpenCluster) -> None:
    broker, configs = Broker(fake), TopicConfigs(await client(fake.bootstrap))
    first = await configs.read(["t1", "t0"], KEYS)
    assert first == {key: {"retention.ms": "5", "cleanup.policy": "delete"} for key in ("t0", "t1")}
    assert first["t0"] is first["t1"]
    again = await configs.read(["t0", "t1"], KEYS)
    assert all(again[name] is first[name] for name in first)
    broker.of["t1"] = "6"
    changed = await configs.read(["t0", "t1"], KEYS)
    assert changed["t1"]["retention.ms"] == "6"
    broker.of["t1"] = "5"
    assert await configs.read(["t0", "t1"], KEYS) == first
    other_question = await configs.read(["t0", "t1"], ("cleanup.policy",))
    assert other_question == {name: {"cleanup.policy": "delete"} for name in first}


async def test_a_question_is_about_some_topics_only(
    fake: FakeCluster, client: OpenCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "AT_ONCE", 2)
    broker, configs = Broker(fake), TopicConfigs(await client(fake.bootstrap))
    assert set(await configs.read(broker.of, KEYS)) == set(broker.of)
    assert broker.questions() == [["t0", "t1"], ["t2", "t3"], ["t4"]]


async def test_only_so_many_questions_are_kept(
    fake: FakeCluster, client: OpenCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_KEPT", 2)
    _, configs = Broker(fake), TopicConfigs(await client(fake.bootstrap))
    for names in (["t0", "t1"], ["t1", "t2"], ["t0", "t1"], ["t2", "t3"], ["t4"]):
        await configs.read(names, KEYS)
    assert [names for names, _ in configs._known] == [("t0", "t1"), ("t2", "t3")]


async def test_a_topic_that_is_gone_is_told_each_time(fake: FakeCluster, client: OpenCluster) -> None:
    broker, configs = Broker(fake), TopicConfigs(await client(fake.bootstrap))
    await configs.read(["t0", "t1"], KEYS)
    broker.of["t1"] = ""
    for _ in range(2):
        with pytest.raises(AdminError, match="describe configs of topic t1: UNKNOWN_TOPIC_OR_PARTITION"):
            await configs.read(["t0", "t1"], KEYS)
