"""One side of a simulated connection: asyncio's transport on top, segments on their way to the other side below.

What is written at one instant leaves as one segment and arrives after the link's delay, in order. The sender may have
`WINDOW` bytes under way or unread (two socket buffers); what is beyond waits in the transport, and its protocol is told
to pause. Unread bytes wait in `_inbox`, the receiver's socket.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.kernel.node import Node, State

if TYPE_CHECKING:
    from tests.simulation.kernel.network import Link, Network

WINDOW: Final = 512 * 1024
READ_BYTES: Final = 128 * 1024  # the most that one call of `data_received` gets
_HIGH_WATER: Final = 64 * 1024
_FIN: Final = b""
_RST: Final = None


class Segment:
    """On its way. `data`: `_FIN` and `_RST` are the ends of a connection."""

    __slots__ = ("data", "due", "sent_at")

    def __init__(self, data: bytes | None, sent_at: float, due: float) -> None:
        self.data = data
        self.sent_at = sent_at
        self.due = due


class Endpoint(asyncio.Transport):
    """See the module. Made in pairs by `Network.connect`; `start` gives it its protocol.

    Attributes:
        port: where the connection's server listens, on both sides the same.
        from_client: this is the side that connected.
    """

    def __init__(
        self, network: Network, node: Node, context: Context, link: Link, port: int, from_client: bool
    ) -> None:
        super().__init__()
        self.network = network
        self.node = node
        self.context = context
        self.link = link
        self.port = port
        self.from_client = from_client
        self.own_port = port
        self.peer: Endpoint
        self._loop = network.loop
        self._protocol: Any = None
        self._buffered = False
        self._inbox: deque[bytes] = deque()
        self._reading = True
        self._closing = False  # asked to close, or lost
        self._gone = False  # the socket is closed
        self._fin_sent = False
        self._error: OSError | None = None  # the connection broke
        self._told_end = False
        self._out: deque[Segment] = deque()
        self._last_due = 0.0
        self._armed = False
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._under_way = 0
        self._high, self._low = _HIGH_WATER, _HIGH_WATER // 4
        self._told_to_pause = False
        self._forgets = False  # SO_LINGER of 0 s
        self._unacknowledged_s = 0.0  # TCP_USER_TIMEOUT; 0: as long as it takes
        self._watched = False
        link.endpoints[self] = None
        node.endpoints[self] = None

    def __repr__(self) -> str:
        return f"<Endpoint {self.node.name} -> {self.peer.node.name}:{self.port}>"

    def start(self, protocol: Any) -> None:
        """The connection is there."""
        self.set_protocol(protocol)
        protocol.connection_made(self)
        if self._inbox:
            self._loop.call_soon(self._read, context=self.context)

    # -- asyncio's transport -------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """`peername` and `sockname` as (node, port); `socket` takes options: TCP_USER_TIMEOUT and
        SO_LINGER of 0 s have an effect."""
        if name == "peername":
            return (self.peer.node.name, self.peer.own_port)
        if name == "sockname":
            return (self.node.name, self.own_port)
        if name == "socket":
            return _Socket(self)
        return default

    def set_protocol(self, protocol: Any) -> None:
        """As asyncio's."""
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> Any:
        """As asyncio's."""
        return self._protocol

    def is_closing(self) -> bool:
        """As asyncio's."""
        return self._closing

    def is_reading(self) -> bool:
        """As asyncio's."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """As asyncio's."""
        self._reading = False

    def resume_reading(self) -> None:
        """As asyncio's."""
        if self._reading or self._closing:
            return
        self._reading = True
        if self._inbox:
            self._loop.call_soon(self._read, context=self.context)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """As asyncio's."""
        if self._closing or self._gone or self._fin_sent or not len(data):
            return
        piece = data if type(data) is bytes else bytes(data)
        if self._under_way >= WINDOW or self._unsent:
            self._unsent.append(piece)
            self._unsent_bytes += len(piece)
            if self._unsent_bytes > self._high and not self._told_to_pause:
                self._told_to_pause = True
                self._protocol.pause_writing()
        else:
            self._send(piece)

    def writelines(self, list_of_data: Any) -> None:
        """As asyncio's."""
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        """As asyncio's."""
        return self._unsent_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """As asyncio's."""
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As asyncio's."""
        self._high = high if high is not None else 4 * low if low is not None else _HIGH_WATER
        self._low = low if low is not None else self._high // 4

    def can_write_eof(self) -> bool:
        """As asyncio's."""
        return True

    def write_eof(self) -> None:
        """As asyncio's."""
        if not self._fin_sent and not self._closing:
            self._fin_sent = True
            if not self._unsent:
                self._put(_FIN)

    def close(self) -> None:
        """Write what is written, then FIN; RST when something was left unread, as Linux does."""
        if self._closing:
            return
        self._closing = True
        if not self._unsent:
            self._finish(None)

    def abort(self) -> None:
        """RST; what is not on its way yet is lost. With SO_LINGER of 0 s so is what a cut link holds, which the kernel
        would send again otherwise."""
        self._closing = True
        self._drop_unsent()
        if self._forgets and self.link.is_cut and not self._gone:
            self._out.clear()
        self._finish(None, reset=True)

    # -- the end -------------------------------------------------------------------------------------------------

    def died(self) -> None:
        """The process was killed: its kernel closes the socket, and nobody is told here."""
        self._closing = True
        self._drop_unsent()
        self._close_socket(reset=True)
        self.node.endpoints.pop(self, None)

    def is_over(self) -> None:
        """The simulation has ended."""
        self._closing = self._gone = True

    def lost(self, error: OSError | None = None) -> None:
        """The connection broke, as seen from this side. What was received before can still be read."""
        if self._gone:
            return
        self._gone = True
        self._drop_unsent()
        self._out.clear()
        self.link.endpoints.pop(self, None)
        self._error = error or ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        if not self._inbox:
            self._tell_end(self._error)

    def _finish(self, exc: Exception | None, reset: bool = False) -> None:
        self._close_socket(reset)
        self._tell_end(exc)

    def _tell_end(self, exc: Exception | None) -> None:
        self._closing = True
        self.node.endpoints.pop(self, None)
        if self._protocol is not None and not self._told_end:
            self._told_end = True
            self._loop.call_soon(self._protocol.connection_lost, exc, context=self.context)

    def _close_socket(self, reset: bool) -> None:
        if self._gone:
            return
        self._gone = True
        unread = any(self._inbox)
        self._inbox.clear()
        if reset or unread:
            self._put(_RST)
        elif not self._fin_sent:
            self._put(_FIN)
        self._fin_sent = True

    def _drop_unsent(self) -> None:
        self._unsent.clear()
        self._unsent_bytes = 0

    # -- sending -------------------------------------------------------------------------------------------------

    def _send(self, piece: bytes) -> None:
        self._under_way += len(piece)
        out, now = self._out, self._loop.now
        if out and out[-1].sent_at == now and out[-1].data and len(out[-1].data) + len(piece) <= READ_BYTES:
            last = out[-1]
            last.data = last.data + piece if last.data else piece
            if self.link.bytes_per_s:
                last.due += len(piece) / self.link.bytes_per_s
                self._last_due = last.due
            return
        if len(piece) <= READ_BYTES:
            self._put(piece)
            return
        for begin in range(0, len(piece), READ_BYTES):
            self._put(piece[begin : begin + READ_BYTES])

    def _put(self, data: bytes | None) -> None:
        loop, link = self._loop, self.link
        due = loop.now + link.delay_s()
        if due < self._last_due:
            due = self._last_due
        if data and link.bytes_per_s:
            due = max(due, self._last_due) + len(data) / link.bytes_per_s
        self._last_due = due
        self._out.append(Segment(data, loop.now, due))
        if not self._armed and not link.is_cut:  # as `arm` does
            self._armed = True
            loop.call_at(due, self._arrive, context=self.peer.context).node = loop.lab
        if self._unacknowledged_s and not self._watched and (link.is_cut or self.peer.link.is_cut):
            self._watched = True
            loop.at(loop.lab, loop.now + self._unacknowledged_s, self.context, self._is_acknowledged, loop.now)

    def give_up_after(self, seconds: float) -> None:
        """Lose the connection when what was written is not acknowledged for so long (TCP_USER_TIMEOUT)."""
        self._unacknowledged_s = seconds

    def forget_unsent(self) -> None:
        """See `abort`."""
        self._forgets = True

    def _is_acknowledged(self, since: float) -> None:
        self._watched = False
        if min(self.link.cut_at, self.peer.link.cut_at) <= since and not self._gone:
            self.lost(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def arm(self) -> None:
        """Have the next segment arrive, unless the link is cut."""
        if self._armed or not self._out or self.link.is_cut:
            return
        self._armed = True
        # The peer's machine takes segments in whatever its process does.
        self._loop.at(self._loop.lab, max(self._out[0].due, self._loop.now), self.peer.context, self._arrive)

    def _arrive(self) -> None:
        self._armed = False
        if self.link.is_cut:  # held; `arm` again when it is healed
            return
        out, now, hooks, peer = self._out, self._loop.now, self.network.on_segment, self.peer
        while out and out[0].due <= now:
            data = out.popleft().data
            if hooks or data is _RST:
                self._deliver(data)
            else:
                peer._received(data)  # no call: nearly always
        if out:
            self.arm()
        elif self._gone:
            self.link.endpoints.pop(self, None)

    def _deliver(self, data: bytes | None) -> None:
        peer = self.peer
        if data is _RST:
            peer.lost()
            return
        if self.network.on_segment and data:
            keep = self.network.ask_hooks(self, data)
            if keep is not None:
                if keep > 0:
                    peer._received(data[:keep])
                self.network.break_connection(self)
                return
        peer._received(data)

    def _go_on(self) -> None:
        """The peer has read some of what is under way."""
        if self._under_way < WINDOW:
            self._loop.call_soon(self._flush, context=self.context)

    def _flush(self) -> None:
        while self._unsent and self._under_way < WINDOW:
            piece = self._unsent.popleft()
            self._unsent_bytes -= len(piece)
            self._send(piece)
        if self._told_to_pause and self._unsent_bytes <= self._low:
            self._told_to_pause = False
            self._protocol.resume_writing()
        if not self._unsent and not self._gone:
            if self._closing:
                self._finish(None)
            elif self._fin_sent:
                self._put(_FIN)

    # -- receiving -----------------------------------------------------------------------------------------------

    def _received(self, data: bytes) -> None:
        if self._gone:
            if data:  # nobody listens any more
                self._put(_RST)
            return
        if self._inbox or not self._reading or not self.node.running or self._protocol is None or self._closing:
            self._inbox.append(data)
        else:
            self._hand_over(data)

    def woken(self) -> None:
        """The process runs again: it reads what has arrived."""
        if self._inbox and self._protocol is not None:
            self._loop.call_soon(self._read, context=self.context)

    def _read(self) -> None:
        """What has piled up comes in reads as large as a process makes them."""
        while self._inbox and self._reading and not self._closing and self.node.state is State.RUNNING:
            data = self._inbox.popleft()
            while data and self._inbox and self._inbox[0] and len(data) + len(self._inbox[0]) <= READ_BYTES:
                data += self._inbox.popleft()
            self._hand_over(data)
        if self._error is not None and not self._inbox:
            self._tell_end(self._error)

    def _hand_over(self, data: bytes) -> None:
        protocol = self._protocol
        try:
            if not data:
                if not protocol.eof_received():
                    self.close()
                return
            peer = self.peer
            peer._under_way -= len(data)  # no call: it is one for each segment
            if peer._unsent:
                peer._go_on()
            if self._buffered:
                _into_buffer(protocol, data)
            else:
                protocol.data_received(data)
        except Exception as exc:  # noqa: BLE001 - a bug of the protocol: asyncio closes the connection
            self._loop.call_exception_handler(
                {
                    "message": "protocol.data_received() failed",
                    "exception": exc,
                    "protocol": protocol,
                }
            )
            self._closing = True
            self._drop_unsent()
            self._finish(exc, reset=True)


class _Socket:
    """What a process sees of its socket: options."""

    family = socket.AF_INET

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        """As the socket's."""
        if (level, option) == (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT):
            self._endpoint.give_up_after(value / 1000)
        elif (level, option) == (socket.SOL_SOCKET, socket.SO_LINGER):
            self._endpoint.forget_unsent()


def _into_buffer(protocol: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        buffer = memoryview(protocol.get_buffer(-1)).cast("B")
        count = min(len(buffer), len(view))
        buffer[:count] = view[:count]
        protocol.buffer_updated(count)
        view = view[count:]
