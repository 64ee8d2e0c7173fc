"""A seed becomes a conversation: a few connections, each with a script of its own, one step of any after the other.

Who is on them: a stranger, who never logs in as the target wants it; a client that logs in and then says what clients
say, or something else; another gateway, or who says so; callers of REST with a token and without. What they say is
mutated in one conversation in three not at all, else a little or a lot.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from protocol.apis import ApiKey
from tests.fuzz.corpus import NO_CLASS, OFFERED, SCRIPTS, Request, Writer, login
from tests.fuzz.login_broker import MECHANISMS
from tests.fuzz.mutate import STRANGE, mutated, reordered
from tests.fuzz.stage import STAGES, TOKENS
from tests.fuzz.steps import Conversation, Do, Step
from tests.fuzz.values import Filler
from tests.support.control.shared_app import every_route

GREETS: Final = "hello of the fleet"
"""The note of a peer's greeting in which the runner puts a true proof."""
_USERS: Final = ("alice", "alice", "bob", "brief", "mallory")
_PLACES: Final = ("bootstrap", "broker", "broker")
_TROUBLES: Final = (
    "target resets",
    "source resets",
    "source is cut off",
    "source is back",
    "target is slow",
    "target is fast",
)
_NAMES: Final = ("mirrored", "promoted", "later", "gated", "west", "gw-0", "..", "%2e%2e", "x" * 300, "\N{SNOWMAN}")
_MANY: Final = (500, 1_000, 3_000, 9_900, 10_001)


def conversation(seed: int, topic_ids: Sequence[UUID]) -> Conversation:
    """The same for the same seed."""
    return _Maker(seed, topic_ids).made()


class _Maker:
    def __init__(self, seed: int, topic_ids: Sequence[UUID]) -> None:
        self.rng = rng = random.Random(seed)
        self._seed = seed
        self._stage = rng.choice(list(STAGES))
        self._filler = Filler(rng, topic_ids)
        self._often = rng.choice((0.0, 0.1, 0.4))
        self._strangers_only = rng.random() < 0.35

    def made(self) -> Conversation:
        rng = self.rng
        lanes = [self._lane(conn) for conn in range(rng.choice((1, 1, 2, 3, 5)))]
        if rng.random() < 0.3:
            lanes.append(self._rest_lane())
        if rng.random() < 0.15 and not self._strangers_only:
            lanes.append([Step(Do.TROUBLE, place=rng.choice(_TROUBLES)) for _ in range(2)])
        steps: list[Step] = []
        while lanes := [lane for lane in lanes if lane]:
            lane = rng.choice(lanes)
            count = rng.choice((1, 1, 3, len(lane)))
            steps += lane[:count]
            del lane[:count]
        return Conversation(self._seed, self._stage, tuple(steps))

    # -- connections -----------------------------------------------------------------------------------------------

    def _lane(self, conn: int) -> list[Step]:
        rng = self.rng
        if rng.random() < 0.1:
            return self._peer(conn)
        requests = self._client()
        if rng.random() < self._often:
            requests = reordered(rng, requests)
        requests = [mutated(rng, each) if rng.random() < self._often else each for each in requests]
        steps = [Step(Do.OPEN, conn, rng.choice(_PLACES))]
        while requests:
            count = rng.choice((1, 1, 1, 2, len(requests)))
            steps += self._sent(conn, requests[:count])
            del requests[:count]
            if rng.random() < 0.15:
                steps.append(self._meanwhile(conn))
        if rng.random() < 0.06:
            steps += self._greedy(conn)
        if rng.random() < 0.5:
            steps.append(Step(rng.choice((Do.CLOSE, Do.RESET, Do.EOF)), conn))
        return steps

    def _client(self) -> list[Request]:
        rng = self.rng
        writer = Writer(rng, self._filler)
        requests = [writer.make(ApiKey.API_VERSIONS)] if rng.random() < 0.7 else []
        if self._strangers_only:
            requests += self._no_login(writer)
        else:
            requests += login(writer, rng.choice(MECHANISMS), rng.choice(_USERS))
        for _ in range(rng.choice((1, 1, 2))):
            requests += rng.choice(SCRIPTS)(writer)
        if rng.random() < 0.03:
            requests.append(self._long(writer))
        if rng.random() < 0.1 and not self._strangers_only:  # KIP-368
            at = rng.randrange(len(requests) + 1)
            requests[at:at] = login(writer, rng.choice(MECHANISMS), rng.choice(_USERS))
        return requests

    def _no_login(self, writer: Writer) -> list[Request]:
        """Some part of a login, or one that the target refuses."""
        rng = self.rng
        whole = login(
            writer, rng.choice(MECHANISMS), rng.choice(("mallory", "", "\N{SNOWMAN}", "a" * 5_000, "a" * 20_000))
        )
        part = whole[: rng.randrange(len(whole) + 1)]
        return [Request(*rng.choice(STRANGE)), *part] if rng.random() < 0.1 else part

    def _long(self, writer: Writer) -> Request:
        """A request of very many elements."""
        rng, many = self.rng, self.rng.choice(_MANY)
        filler = Filler(rng, self._filler.topic_ids, most=many, depth=rng.choice((0, 0, 1, 2)))
        key, version = rng.choice([each for each in OFFERED if each[0] not in NO_CLASS])
        return Request(filler.frame(key, version, 99, "long"), f"{ApiKey(key).name} v{version} of {many} elements")

    def _sent(self, conn: int, requests: list[Request]) -> list[Step]:
        """One write, in pieces; now and then its end never comes."""
        rng = self.rng
        data, note = b"".join(each.data for each in requests), " + ".join(each.note for each in requests)
        if rng.random() < 0.03:
            data, note = data[: rng.randrange(1, len(data))], f"the beginning of {note}"
        cuts: list[int] = []
        if rng.random() < 0.3:
            cuts = [rng.randrange(1, len(data) + 1) for _ in range(rng.choice((1, 2, 8)))]
        elif rng.random() < 0.03 and len(data) < 300:
            cuts = list(range(1, len(data)))
        seconds = rng.choice((0.0, 0.001, 0.05, 1.0)) if cuts else 0.0
        return [Step(Do.SEND, conn, data=data, cuts=tuple(cuts), seconds=seconds, frames=len(requests), note=note)]

    def _greedy(self, conn: int) -> list[Step]:
        """Much is asked for that is not taken: large answers, or, of a stranger, many."""
        rng = self.rng
        writer = Writer(rng, self._filler)
        if self._strangers_only:
            asked = [writer.make(ApiKey.API_VERSIONS) for _ in range(500)]
        else:
            read = {"topic": "plain", "partition": 0, "fetch_offset": 0, "session_id": 0, "session_epoch": -1}
            bounds = {"max_bytes": 1 << 20, "partition_max_bytes": 1 << 20}
            asked = [writer.make(ApiKey.FETCH, rng.choice((4, 7, 11, 12)), **read, **bounds) for _ in range(25)]
        data, note = b"".join(each.data for each in asked), f"{len(asked)} times {asked[0].note}"
        return [
            Step(Do.MUTE, conn),
            Step(Do.SEND, conn, data=data, frames=len(asked), note=note),
            Step(Do.WAIT, conn, seconds=rng.choice((1.0, 8.0))),
            Step(Do.UNMUTE, conn),
            Step(Do.WAIT, conn, seconds=1.0),
        ]

    def _meanwhile(self, conn: int) -> Step:
        rng = self.rng
        what = rng.choice((Do.WAIT, Do.WAIT, Do.MUTE, Do.UNMUTE))
        return Step(what, conn, seconds=rng.choice((0.1, 0.1, 0.1, 1.0, 1.0, 4.0, 30.0)) if what is Do.WAIT else 0.0)

    # -- peers, REST -----------------------------------------------------------------------------------------------

    def _peer(self, conn: int) -> list[Step]:
        rng = self.rng
        hello = {"name": "gw-1", "incarnation": "1", "to": "gw-0", "nonce": "00" * 16, "proof": "0" * 64}
        data, note = _framed(json.dumps(hello).encode()), "a greeting without a true proof"
        how = rng.randrange(6)
        if how == 0:
            data, note = rng.choice(STRANGE)
        elif how == 1:
            hello[rng.choice(list(hello))] = rng.choice(("", "\ud800", "\0", "x" * 5_000))
            data, note = _framed(json.dumps(hello).encode()), "a greeting with a strange word"
        elif how == 2:
            data, note = _framed(b"[" * rng.choice((10, 4_000)) + b"1"), "a greeting that is deep"
        elif how == 3:
            data, note = mutated(rng, Request(data, "a greeting"))
        elif how == 4 and not self._strangers_only:
            note = GREETS
        steps = [Step(Do.OPEN, conn, "peer"), *self._sent(conn, [Request(data, note)])]
        if note == GREETS:
            steps = [steps[0], Step(Do.SEND, conn, data=data, frames=1, note=note)]
            ask = json.dumps({"ask": 1, "what": rng.choice(("nothing", "")), "body": {}}).encode()
            steps += self._sent(conn, [Request(_framed(ask), "a question that nobody knows")])
        return [*steps, Step(Do.WAIT, conn, seconds=rng.choice((0.1, 3.0)))]

    def _rest_lane(self) -> list[Step]:
        return [self._rest() for _ in range(self.rng.choice((1, 3, 6)))]

    def _rest(self) -> Step:
        rng = self.rng
        route = rng.choice([row for row in every_route().rows if not row.path.startswith(("/docs", "/console"))])
        path = route.path
        for name in ("link", "topic", "partition", "job", "group:path", "name:path"):
            said = "west" if name == "link" and rng.random() < 0.8 else rng.choice(_NAMES)
            path = path.replace("{" + name + "}", said)
        method = (
            route.method if rng.random() < 0.9 else rng.choice(("GET", "POST", "PUT", "DELETE", "PATCH", "\N{SNOWMAN}"))
        )
        if self._seed % 2 and route.method != "GET" and rng.random() < 0.5:
            path, method = "/v3/status", "GET"
        host = "gateway" if rng.random() < 0.9 else rng.choice(("evil.example", "", "127.0.0.1:8642", "a\\b"))
        headers = [("host", host)]
        if not self._strangers_only and rng.random() < 0.6:
            headers.append(("authorization", f"Bearer {rng.choice(list(TOKENS))}"))
        elif rng.random() < 0.5:
            headers.append(("authorization", rng.choice(("Bearer x", "Basic eDp5", "Bearer", "", "Bearer \xff"))))
        if rng.random() < 0.1:
            headers.append(("origin", rng.choice(("http://gateway", "http://evil.example", "null"))))
        body = rng.choice((b"", b"{}", b"[]", b"{", b"null", b'{"mirror_topic_names": ["mirrored"]}', b'{"a": ' * 3000))
        if body:
            headers.append(("content-type", rng.choice(("application/json", "application/json", "text/plain"))))
            headers.append(("content-length", rng.choice((str(len(body)), "0", "99999999", "x"))))
        return Step(Do.REST, place=f"{method} {path}", data=body, headers=tuple(headers), frames=1)


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
