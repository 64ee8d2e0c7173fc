"""What a client calls itself ends no work of the gateway's; what ends anyway is begun again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from gateway.fleet.peers.wire import FRAME_BYTES, TooLong, encode
from gateway.groups.gate import fleet as fleet_gates
from gateway.groups.gate.fleet import FleetGates
from gateway.groups.gate.rules.gates import CLIENT_ID_CHARS, GroupGates, Identity, Waiter, named
from gateway.kafka.connection.errors import NetError
from gateway.state.views import StateViews
from gateway.transport import background
from gateway.transport.background import deaths, kept_running
from protocol.apis import ApiKey
from protocol.header import frame_request
from tests.support.waiting import wait_until_async

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation


class Leader:
    """Takes what a follower says as the wire would; fails at first if told to."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.told: list[list[Any]] = []
        self.fails = 0

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        if self.fails:
            self.fails -= 1
            raise ValueError("nobody has thought of this")
        encode({"ask": 1, "what": what, "body": body})
        self.told.append(body["waiters"])
        return {}


def follower(leader: Leader) -> tuple[GroupGates, FleetGates]:
    gates = GroupGates()
    peers: Any = leader
    fleet = FleetGates("me", gates, StateViews(), peers, leader=lambda: "l", is_leading=lambda: False, term=lambda: 1)
    return gates, fleet


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_gates, "_GATHER_S", 0.0)
    monkeypatch.setattr(fleet_gates, "_REFRESH_S", 0.02)
    monkeypatch.setattr(background, "AGAIN_S", 0.0)


@pytest.mark.usefixtures("quick")
async def test_whatever_waiters_call_themselves_the_leader_is_told_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader()
    gates, fleet = follower(leader)
    gates.wait(Waiter("mine", Identity("h", "c"), 0.0), lambda: None)
    for number in range(400):
        gates.wait(Waiter(f"{number}" + "\ufffd" * 30_000, Identity("h", "\ufffd" * 33_000), 0.0), lambda: None)
    fleet.start()
    await wait_until_async(lambda: bool(leader.told), 5.0)
    assert leader.told[0][0][:3] == ["mine", "h", "c"]
    await fleet.close()


@pytest.mark.usefixtures("quick")
async def test_a_report_that_fails_is_begun_again() -> None:
    leader = Leader()
    leader.fails = 2
    gates, fleet = follower(leader)
    gates.wait(Waiter("mine", Identity("h", "c"), 0.0), lambda: None)
    before = deaths.get("fleet waiters", 0)
    with capture_logs() as logs:
        fleet.start()
        await wait_until_async(lambda: bool(leader.told), 5.0)
    await fleet.close()
    assert deaths["fleet waiters"] == before + 2
    assert "ValueError: nobody has thought of this" in [entry["error"] for entry in logs if "error" in entry]


@pytest.mark.usefixtures("quick")
async def test_work_that_comes_to_its_end_is_not_begun_again() -> None:
    ran = []

    async def work() -> None:
        ran.append(1)

    await kept_running(work, "work")
    assert ran == [1]


@pytest.mark.usefixtures("quick")
async def test_work_that_is_cancelled_ends() -> None:
    task = asyncio.create_task(kept_running(asyncio.Event().wait, "work"), name="work")  # type: ignore[arg-type]
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_message_that_is_too_long_is_an_error_of_the_wire() -> None:
    with pytest.raises(TooLong) as error:
        encode({"x": "y" * FRAME_BYTES})
    assert isinstance(error.value, NetError)


async def test_a_client_id_is_cut_and_still_its_own(talk: Conversation) -> None:
    long, other = "x" * 30_000 + "a", "x" * 30_000 + "b"
    talk.says(frame_request(int(ApiKey.API_VERSIONS), 2, 1, long, b""))
    assert len(talk.session.identity.client_id) <= CLIENT_ID_CHARS
    assert named(long) != named(other)
    assert named("short") == "short"
    assert talk.broker.take() == frame_request(int(ApiKey.API_VERSIONS), 2, 1, long, b"")
