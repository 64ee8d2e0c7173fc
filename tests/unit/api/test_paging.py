"""Lists in pages, of both APIs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from gateway.api import paging
from gateway.state.records import GroupRecord
from gateway.telemetry.metrics import Metrics
from tests.support.control.control_plane import Plane
from tests.support.control.shared_app import shared_app

OURS = "/v3/links/l/mirrors"
CONFLUENTS = "/kafka/v3/clusters/T/links/l/mirrors"
OF_ALL = "/kafka/v3/clusters/T/links/-/mirrors"


@pytest.fixture
async def api(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """Of a link with seven mirror topics, `orders` and t1 to t6."""
    record = await plane.with_mirror("orders")
    await plane.by_hand(*(replace(record, mirror_topic=f"t{index}") for index in (3, 1, 6, 2, 5, 4)))
    app = shared_app(lambda: plane.service, Metrics())
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gw:8642") as client:
        yield client


async def pages(api: httpx.AsyncClient, url: str, name: str = "mirror_topic_name") -> list[list[str]]:
    """The names of each page, by what each says of the next one."""
    found: list[list[str]] = []
    following: str | None = url
    while following:
        answer = await api.get(following)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        found.append([one[name] for one in page["data"]])
        following = page["metadata"]["next"]
        assert following is None or following.startswith(f"http://gw:8642{httpx.URL(url).path}?")
    return found


@pytest.mark.parametrize("path", [OURS, CONFLUENTS, OF_ALL])
async def test_each_topic_is_on_one_page(api, path):
    assert await pages(api, f"{path}?page_size=3") == [["orders", "t1", "t2"], ["t3", "t4", "t5"], ["t6"]]
    assert await pages(api, f"{path}?page_size=7") == [["orders", *(f"t{index}" for index in range(1, 7))]]


@pytest.mark.parametrize("path", [OURS, CONFLUENTS])
async def test_a_list_that_is_short_comes_whole(api, path):
    answer = (await api.get(path)).json()
    assert len(answer["data"]) == 7
    assert answer["metadata"] == {"self": f"http://gw:8642{path}", "next": None}


@pytest.mark.parametrize("path", [OURS, CONFLUENTS])
async def test_what_comes_and_goes_between_pages_moves_nothing(api, plane, path):
    """The one that the token names is deleted, too."""
    following = (await api.get(f"{path}?page_size=3")).json()["metadata"]["next"]
    record = plane.store.mirrors["l", "t2"]
    await plane.by_hand(replace(record, mirror_topic="a-new-one"), replace(record, mirror_topic="t2a"))
    await plane.store.delete(record)
    assert await pages(api, following) == [["t2a", "t3", "t4"], ["t5", "t6"]]


@pytest.mark.parametrize("path", [OURS, CONFLUENTS, OF_ALL])
async def test_pages_of_those_in_one_state(api, plane, path):
    for topic in ("t2", "t4", "t6"):
        await plane.service.mirrors.pause("l", topic)
    assert await pages(api, f"{path}?mirror_status=PAUSED&page_size=2") == [["t2", "t4"], ["t6"]]
    assert await pages(api, f"{path}?mirror_status=FAILED&page_size=2") == [[]]


async def test_a_page_of_large_topics_ends_early(api, monkeypatch):
    """`orders` and each of the others have three partitions: two topics are in a page, and one that is too large."""
    monkeypatch.setattr(paging, "HEAVIEST", 6)
    assert [len(page) for page in await pages(api, OURS)] == [2, 2, 2, 1]
    monkeypatch.setattr(paging, "HEAVIEST", 2)
    assert [len(page) for page in await pages(api, OURS)] == [1] * 7


async def test_groups_and_candidates_come_in_pages(api, plane):
    await plane.by_hand(*(GroupRecord(link="l", group=name) for name in ("g/1", "b c", "ä")))
    assert await pages(api, "/v3/links/l/groups?page_size=2", "group") == [["b c", "g/1"], ["ä"]]
    for topic in ("clicks", "bids", "views"):
        plane.source.add(topic, 1, 100)
    found = await pages(api, "/v3/links/l/candidates?page_size=2", "source_topic_name")
    assert [name for page in found for name in page] == ["bids", "clicks", "views"]
    assert len(found) == 2


@pytest.mark.parametrize("path", [OURS, CONFLUENTS, OF_ALL, "/v3/links/l/groups", "/v3/links/l/candidates"])
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("page_size=0", "page_size: must be 1 or more (it is '0')"),
        ("page_size=1001", "page_size: must be 1000 or less (it is '1001')"),
        ("page_size=many", "page_size: must be a whole number (it is 'many')"),
        ("page_token=orders", "page_token: 'orders' is none of this list; take that of metadata.next"),
        ("page_token=%F0%9F%98%80", "is none of this list"),
        ("page_token=" + "W" * 9000, "is none of this list"),
    ],
)
async def test_a_bad_size_or_token_is_one_line(api, path, query, words):
    answer = await api.get(f"{path}?{query}")
    assert answer.status_code == 400
    message = answer.json()["message"]
    assert words in message
    assert "\n" not in message
    assert len(message) < 200


async def test_a_token_is_of_its_list_alone(api):
    token = httpx.URL((await api.get(f"{OURS}?page_size=3")).json()["metadata"]["next"]).params["page_token"]
    for path in (CONFLUENTS, OF_ALL, "/v3/links/l/groups"):
        assert (await api.get(path, params={"page_token": token})).status_code == 400


async def test_verbs_say_nothing_of_pages(api):
    answer = (await api.post(f"{OURS}:pause", json={"mirror_topic_names": ["t1"]})).json()
    assert answer.keys() == {"kind", "data"}
