import asyncio
import re
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import MagicMock

import pytest

from gateway.kafka.acts import ActRefused, guarded, permitted
from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import ClusterUnavailable, ConnectionClosed, RequestTimedOut, UnsupportedVersion
from gateway.transport.event_loop_io import EventLoopIO
from protocol.apis import ApiKey
from protocol.asked_again import MetadataAgain
from protocol.codec import encode_body, encode_response
from protocol.framing import FrameReader
from protocol.messages import DeleteTopicsRequest, MetadataRequest, MetadataResponse
from tests.support.brokers.quick_clusters import OpenConnection, quick
from tests.support.fakes.fake_broker import HANG_UP, SILENCE, FakeBroker, Request
from tests.support.waiting import wait_until_async

METADATA = ApiKey.METADATA
ASK = encode_body(MetadataRequest(topics=[]), 9)


def answer(**fields: Any) -> Any:
    return MetadataResponse(brokers=[], topics=[], **{"cluster_id": "c", "controller_id": 1} | fields)


async def test_open_learns_the_versions_and_names_the_client(connect: OpenConnection) -> None:
    async with FakeBroker({METADATA: lambda _: answer()}, versions={18: (0, 3), 3: (4, 7), 0: (3, 13)}) as broker:
        connection = await connect(broker.port, client_id="it's me")

        assert connection.versions == {18: (0, 3), 3: (4, 7), 0: (3, 13)}
        assert (await connection.request(MetadataRequest(topics=[]))).cluster_id == "c"
        assert [r.version for r in broker.asked(METADATA)] == [7]
        assert {r.client_id for r in broker.requests} == {"it's me"}
        assert broker.requests[0].message.client_software_name == "lockgate"


@pytest.mark.parametrize(
    ("has", "cap", "expected"),
    [((0, 99), None, 13), ((0, 5), None, 5), ((0, 99), 9, 9), ((4, 9), 4, 4), ((10, 12), 9, None), (None, None, None)],
)
def test_version_is_the_highest_in_common(has: tuple[int, int] | None, cap: int | None, expected: int | None) -> None:
    loop = asyncio.new_event_loop()
    connection = Connection("h", 1, quick("h:1"), loop)
    connection.versions = {} if has is None else {METADATA: has}
    if expected is None:
        with pytest.raises(UnsupportedVersion, match="h:1: Metadata"):
            connection.version(METADATA, cap)
    else:
        assert connection.version(METADATA, cap) == expected
    loop.close()


async def test_pipelined_responses_come_in_order_as_read_only_views(connect: OpenConnection) -> None:
    async with FakeBroker({METADATA: lambda r: answer(controller_id=r.correlation_id)}) as broker:
        connection = await connect(broker.port)
        got: list[memoryview | None] = []
        for _ in range(200):
            connection.send(METADATA, 9, (ASK,), got.append)
        assert connection.in_flight == 200

        await wait_until_async(lambda: len(got) == 200)

        bodies = [encode_body(answer(controller_id=i), 9) for i in range(1, 201)]
        assert [bytes(view) for view in got if view is not None] == bodies
        assert all(view is not None and view.readonly for view in got)
        assert connection.in_flight == 0


@pytest.mark.parametrize("size", [100, 20_000, 3_000_000])
async def test_large_requests_and_responses(connect: OpenConnection, size: int) -> None:
    name = "x" * size
    async with FakeBroker({METADATA: lambda r: answer(cluster_id=r.message.topics[0].name)}) as broker:
        connection = await connect(broker.port)
        got: asyncio.Future[memoryview | None] = asyncio.get_running_loop().create_future()
        # Version 9 has varint lengths, so a name may be longer than 32 KiB; the body goes out in pieces.
        topic = MetadataRequest.MetadataRequestTopic(name=name)
        body = memoryview(encode_body(MetadataRequest(topics=[topic]), 9))
        pieces = (body[:7], bytearray(body[7:50]), bytes(body[50:]))

        connection.send(METADATA, 9, pieces, got.set_result)

        found = await got
        assert found is not None
        assert bytes(found) == encode_body(answer(cluster_id=name), 9)


async def test_a_request_without_response_calls_nobody(connect: OpenConnection) -> None:
    async with FakeBroker({METADATA: lambda r: SILENCE if r.correlation_id == 1 else answer()}) as broker:
        connection = await connect(broker.port)
        got: list[str] = []
        connection.send(METADATA, 9, (ASK,), lambda _: got.append("first"), expect_response=False)
        connection.send(METADATA, 9, (ASK,), lambda _: got.append("second"))

        await wait_until_async(lambda: bool(got))
        connection.close()

        assert got == ["second"]


def misnumbered(request: Request) -> bytes:
    return encode_response(answer(), METADATA, request.version, request.correlation_id + 1)


def truncated(request: Request) -> Any:
    return struct.pack(">iib", 5, 1, 0) if request.correlation_id == 1 else SILENCE


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (lambda _: HANG_UP, "closed by the broker|reset by peer"),
        (misnumbered, "correlation id 2 in place of 1"),
        (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (lambda _: b"\xff" * 100, "frame of -1 bytes"),
        (truncated, "malformed Metadata response"),
    ],
)
async def test_a_broken_connection_gives_every_request_in_flight_none(
    connect: OpenConnection, reply: Callable[[Request], Any], reason: str
) -> None:
    async with FakeBroker({METADATA: reply}) as broker:
        connection = await connect(broker.port)
        order: list[str] = []

        def note(name: str, view: memoryview | None) -> None:
            order.append(f"{name} {view}")

        connection.on_closed.append(lambda closed: order.append(f"closed {closed.closed}"))
        pending = asyncio.create_task(connection.request(MetadataRequest(topics=[])), name="pending")
        await asyncio.wait((pending,), timeout=0)
        for name in "ab":
            connection.send(METADATA, 9, (ASK,), partial(note, name))

        with pytest.raises(ConnectionClosed, match=reason):
            await pending

        assert order == ["a None", "b None", "closed True"]
        assert re.search(reason, connection.close_reason)
        assert connection.in_flight == 0


async def test_sending_on_a_closed_connection_says_that_nothing_was_sent(connect: OpenConnection) -> None:
    async with FakeBroker() as broker:
        connection = await connect(broker.port)
        connection.close("enough")
        got: list[Any] = []

        with pytest.raises(ConnectionClosed, match="enough"):
            connection.send(METADATA, 9, (ASK,), got.append)

        assert got == []
        assert len(broker.requests) == 1


async def test_close_is_told_once_and_keeps_the_first_reason(connect: OpenConnection) -> None:
    async with FakeBroker() as broker:
        connection = await connect(broker.port)
        told: list[str] = []
        connection.on_closed.append(lambda closed: told.append(closed.close_reason))
        connection.close("first")
        connection.close("second")
        await wait_until_async(lambda: not broker.open_connections)

        assert told == ["first"]


@pytest.mark.parametrize("taken_back", [True, False])
async def test_what_is_taken_back_is_sent_no_more(connect: OpenConnection, taken_back: bool) -> None:
    """The kernel of a socket that closes goes on sending what was written to it; after a reset it does not."""
    async with FakeBroker({METADATA: lambda _: SILENCE}) as broker:
        connection = await connect(broker.port)
        sock = connection._transport.get_extra_info("socket")  # type: ignore[union-attr]
        (connection.take_back if taken_back else connection.close)("the client has gone")
        assert connection.close_reason == "the client has gone"
        lingers = struct.unpack("ii", sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
        assert lingers == ((1, 0) if taken_back else (0, 0))


async def test_an_overdue_request_closes_the_connection(connect: OpenConnection) -> None:
    async with FakeBroker({METADATA: lambda _: SILENCE}) as broker:
        connection = await connect(broker.port, request_timeout_ms="200")
        got: list[Any] = []
        connection.send(METADATA, 9, (ASK,), got.append)
        connection.send(METADATA, 9, (ASK,), got.append)

        await wait_until_async(lambda: connection.closed, 5)

        assert got == [None, None]
        assert connection.close_reason == "no answer within 0.2 s"


async def test_a_request_that_waits_less_than_the_connection_leaves_it_open(connect: OpenConnection) -> None:
    released = asyncio.Event()

    async def later(request: Request) -> Any:
        await released.wait()
        return answer(controller_id=request.correlation_id)

    async with FakeBroker({METADATA: later}) as broker:
        connection = await connect(broker.port)
        with pytest.raises(RequestTimedOut, match=r"no answer to Metadata within 0.05 s"):
            await connection.request(MetadataRequest(topics=[]), timeout_s=0.05)
        released.set()

        # The late response is taken and dropped; the next request gets its own.
        assert (await connection.request(MetadataRequest(topics=[]))).controller_id == 2


async def test_a_request_may_wait_longer_than_the_others(connect: OpenConnection) -> None:
    released = asyncio.Event()

    async def later(_: Request) -> Any:
        await released.wait()
        return answer()

    async with FakeBroker({METADATA: later}) as broker:
        connection = await connect(broker.port, request_timeout_ms="150")
        task = asyncio.create_task(connection.request(MetadataRequest(topics=[]), timeout_s=10), name="patient")
        await asyncio.wait((task,), timeout=0.5)
        released.set()

        assert (await task).cluster_id == "c"


async def test_only_one_timer_however_many_requests(connect: OpenConnection) -> None:
    async with FakeBroker({METADATA: lambda _: answer()}) as broker:
        connection = await connect(broker.port)
        timers = set()
        got: list[Any] = []
        for _ in range(50):
            connection.send(METADATA, 9, (ASK,), got.append)
            timers.add(id(connection._timer))
        await wait_until_async(lambda: len(got) == 50)

        assert len(timers) == 1


async def test_a_reader_that_stops_pauses_the_writer(connect: OpenConnection) -> None:
    reading = asyncio.Event()

    async def stuck(_: Request) -> Any:
        await reading.wait()
        return SILENCE

    async with FakeBroker({ApiKey.HEARTBEAT: stuck, METADATA: stuck}) as broker:
        connection = await connect(broker.port)
        topic = MetadataRequest.MetadataRequestTopic(name="x" * 1_000_000)
        body = encode_body(MetadataRequest(topics=[topic]), 9)
        told: list[str] = []
        connection.when_writable(lambda: told.append("now"))
        assert told == ["now"]

        def fill() -> bool:
            if not connection.write_paused:
                connection.send(METADATA, 9, (body,), lambda _: None, expect_response=False)
            return connection.write_paused

        await wait_until_async(fill)
        connection.when_writable(lambda: told.append("later"))
        assert told == ["now"]
        reading.set()
        await wait_until_async(lambda: told == ["now", "later"])

        assert not connection.write_paused


async def test_closing_wakes_those_who_wait_to_write(connect: OpenConnection) -> None:
    async with FakeBroker() as broker:
        connection = await connect(broker.port)
        connection.pause_writing()
        told: list[bool] = []
        connection.when_writable(lambda: told.append(connection.closed))
        connection.close()

        assert told == [True]


async def test_a_callback_that_fails_harms_nobody_else(
    connect: OpenConnection, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("mine")

    async with FakeBroker({METADATA: lambda _: answer()}) as broker:
        connection = await connect(broker.port)
        got: list[Any] = []
        connection.send(METADATA, 9, (ASK,), fail)
        connection.send(METADATA, 9, (ASK,), got.append)
        await wait_until_async(lambda: bool(got))
        connection.on_closed += [fail, got.append]
        connection.close()

        assert got[1:] == [connection]
        assert "mine" in caplog.text


async def test_the_socket_is_set_up(connect: OpenConnection) -> None:
    async with FakeBroker() as broker:
        connection = await connect(broker.port)
        assert connection._transport is not None
        sock = connection._transport.get_extra_info("socket")

        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_refused_and_unresolvable_addresses_say_so(unused_port: Callable[[], int]) -> None:
    port = unused_port()
    with pytest.raises(ClusterUnavailable, match=rf"^127.0.0.1:{port}: connection refused$"):
        await Connection.open("127.0.0.1", port, quick("a:1"))
    with pytest.raises(ClusterUnavailable, match=r"^no.such.host.invalid:9092: the name does not resolve"):
        await Connection.open("no.such.host.invalid", 9092, quick("a:1"))


async def test_a_listener_that_says_nothing_is_given_up() -> None:
    async with FakeBroker({ApiKey.API_VERSIONS: lambda _: SILENCE}) as broker:
        config = quick("a:1", socket_connection_setup_timeout_ms="100")
        with pytest.raises(ClusterUnavailable, match=r"not connected within 0.1 s"):
            await Connection.open("127.0.0.1", broker.port, config)
        await wait_until_async(lambda: not broker.open_connections)


async def test_cancelling_open_leaves_no_socket_behind() -> None:
    async with FakeBroker({ApiKey.API_VERSIONS: lambda _: SILENCE}) as broker:
        task = asyncio.create_task(Connection.open("127.0.0.1", broker.port, quick("a:1")), name="open")
        await wait_until_async(lambda: broker.requests)
        task.cancel()
        await asyncio.wait((task,))

        await wait_until_async(lambda: not broker.open_connections)


async def test_a_connection_retires_when_all_that_was_sent_is_answered(connect: OpenConnection) -> None:
    late = asyncio.Event()

    async def slowly(request: Request) -> Any:
        await late.wait()
        return answer(controller_id=request.correlation_id)

    async with FakeBroker({METADATA: slowly}) as broker:
        connection = await connect(broker.port)
        got: list[memoryview | None] = []
        for _ in range(3):
            connection.send(METADATA, 9, (ASK,), got.append)
        connection.retire("changed")
        await wait_until_async(lambda: len(broker.asked(METADATA)) > 0)
        assert not connection.closed

        late.set()
        await wait_until_async(lambda: connection.closed)

    assert len(got) == 3
    assert None not in got, "no outcome is lost"
    assert connection.close_reason == "changed"


async def test_who_sends_on_while_a_connection_retires_is_answered_too(connect: OpenConnection) -> None:
    async with FakeBroker({METADATA: lambda r: answer(controller_id=r.correlation_id)}) as broker:
        connection = await connect(broker.port)
        got: list[memoryview | None] = []

        def again(body: memoryview | None) -> None:
            got.append(body)
            if len(got) < 4:
                connection.send(METADATA, 9, (ASK,), again)

        connection.send(METADATA, 9, (ASK,), again)
        connection.retire("changed")
        await wait_until_async(lambda: connection.closed)

    assert len(got) == 4
    assert None not in got


async def test_what_is_to_be_done_after_a_burst_is_done_once_all_of_it_is_told() -> None:
    connection = Connection("h", 1, quick("h:1"), asyncio.get_running_loop())
    connection.connection_made(MagicMock())
    told: list[str] = []
    for number in range(3):

        def answered(_: memoryview | None, number: int = number) -> None:
            if not number:
                connection.after_responses(lambda: told.append("after"))
            told.append(str(number))

        connection.send(METADATA, 8, (ASK,), answered)
    burst = b"".join(struct.pack(">ii", 4, number) for number in range(3))
    connection.get_buffer(-1)[: len(burst)] = burst
    connection.buffer_updated(len(burst))
    assert told == ["0", "1", "2", "after"]
    connection.close()


async def test_small_requests_that_are_collected_leave_in_one_go_and_all_in_order() -> None:
    connection, transport = Connection("h", 1, quick("h:1"), asyncio.get_running_loop()), MagicMock()
    connection.connection_made(transport)
    writes: list[bytes] = []
    transport.write = writes.append
    transport.writelines = lambda pieces: writes.append(b"".join(pieces))
    event_loop_io = EventLoopIO(asyncio.get_running_loop())

    def send(name: bytes, size: int = 100) -> None:
        connection.collect_in(event_loop_io)
        connection.send(METADATA, 8, (name * size,), lambda _: None)

    def left() -> list[bytes]:
        frames = FrameReader(1 << 20).feed(b"".join(writes))
        return [bytes(frame[-1:]) for frame in frames]

    send(b"a")
    assert left() == [b"a"]  # nobody collects: at once
    event_loop_io.collect()
    send(b"b")
    send(b"c")
    assert left() == [b"a"]
    send(b"d", 100_000)  # a large one leaves at once, behind what came before
    assert left() == [b"a", b"b", b"c", b"d"]
    send(b"e")
    send(b"f")
    assert left() == [b"a", b"b", b"c", b"d"]
    event_loop_io.flush()
    assert left() == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert len(writes) == 3
    send(b"g")
    assert left()[-1] == b"g"
    connection.close()


async def test_what_is_collected_under_a_lease_does_not_leave_after_its_end() -> None:
    connection, transport = Connection("h", 1, quick("h:1"), asyncio.get_running_loop()), MagicMock()
    connection.connection_made(transport)
    valid, told = [True], list[memoryview | None]()
    event_loop_io = EventLoopIO(asyncio.get_running_loop(), lambda: valid[0])
    event_loop_io.collect()
    assert event_loop_io.may_write()
    connection.collect_in(event_loop_io)
    connection.send(METADATA, 8, (b"late",), told.append)
    valid[0] = False
    event_loop_io.flush()
    assert told == [None]
    assert "lease" in connection.close_reason
    assert not transport.write.called
    assert not transport.writelines.called


async def test_what_is_collected_does_not_leave_after_the_connection_was_closed() -> None:
    connection, transport = Connection("h", 1, quick("h:1"), asyncio.get_running_loop()), MagicMock()
    connection.connection_made(transport)
    event_loop_io = EventLoopIO(asyncio.get_running_loop())
    event_loop_io.collect()
    connection.collect_in(event_loop_io)
    told: list[memoryview | None] = []
    connection.send(METADATA, 8, (b"late",), told.append)
    connection.close()
    event_loop_io.flush()
    assert told == [None]
    assert not transport.write.called
    assert not transport.writelines.called


@pytest.mark.parametrize("raw", [False, True])
async def test_a_request_waits_where_it_is_while_the_broker_throttles_the_connection(
    connect: OpenConnection, raw: bool
) -> None:
    """It reads nothing meanwhile (KIP-219): what was sent waited there, in front of all that came behind it."""
    throttles = [300, 0]
    async with FakeBroker({METADATA: lambda _: answer(throttle_time_ms=throttles.pop(0))}) as broker:
        connection = await connect(broker.port)
        asked = MetadataRequest(topics=[])
        await connection.request(MetadataAgain(asked, b"") if raw else asked)
        assert connection.rest.active
        with pytest.raises(ClusterUnavailable, match=r"Metadata was not sent: the broker throttles .* for 0\.\d s yet"):
            await connection.request(asked, timeout_s=0.01)
        assert len(broker.asked(METADATA)) == 1
        await connection.request(asked)
        assert len(broker.asked(METADATA)) == 2
        assert not connection.rest.active


async def test_what_changes_a_cluster_asks_for_its_permit_behind_the_wait(connect: OpenConnection) -> None:
    """What it stands on may be over by then."""
    throttles = [50, 0]
    allowed = [True]

    def permit() -> None:
        if not allowed[0]:
            raise ActRefused("the lease is over")

    async with FakeBroker({METADATA: lambda _: answer(throttle_time_ms=throttles.pop(0))}) as broker:
        connection = await connect(broker.port)
        await connection.request(MetadataRequest(topics=[]))
        with guarded(), permitted(permit):
            waiting = asyncio.create_task(connection.request(DeleteTopicsRequest(topics=[])), name="act")
            await wait_until_async(lambda: connection.rest.waiting == 1, what="its wait")
        allowed[0] = False
        with pytest.raises(ActRefused):
            await waiting
        assert not broker.asked(ApiKey.DELETE_TOPICS)
