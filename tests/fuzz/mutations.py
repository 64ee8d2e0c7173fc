"""`python -m tests.fuzz.mutations`: faults put into the shipped gateway. The fuzzer must find each by its own means.

python -m tests.fuzz.mutations                   all of them
python -m tests.fuzz.mutations --only "a login"  those whose names begin so

For each of them conversations are had, seed by seed, until one finds what the fault breaks, and the same conversation
must find nothing of it without the fault. A line for each; the last line is `fuzz-mutations: PASS seeded=N caught=N`,
with exit code 0, or FAIL with 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from gateway.api.access.credentials import Credentials
from gateway.api.access.roles import Caller, Role
from gateway.fleet.peers import serve
from gateway.fleet.peers.wire import MalformedPeer
from gateway.groups.gate.rules.seen_groups import SeenGroups
from gateway.proxy.handlers.heartbeat import HeartbeatHandler
from gateway.proxy.rules import own_entries
from gateway.proxy.rules.held_requests import HeldRequests
from gateway.proxy.rules.unproven_requests import UnprovenRequests
from gateway.proxy.session.login import Login
from gateway.proxy.session.session import Session
from gateway.proxy.session.streams import StreamError
from gateway.topics.source_topics import UnmirroredTopics
from tests.fuzz.generate import conversation
from tests.fuzz.run import Theatre
from tests.fuzz.stage import STAGES

_MOST: Final = 600
"""Conversations that may be had until a fault is found."""


@dataclass(frozen=True)
class Fault:
    """`kind`: as what it must be found. `replaced`: (owner, attribute, value made of what was there)."""

    name: str
    kind: str
    owner: Any
    attribute: str
    make: Callable[[Any], Any]


@contextmanager
def put_in(fault: Fault) -> Iterator[None]:
    """The fault is in the code, in this block. Raises AttributeError when what it replaces is not there any more."""
    before = getattr(fault.owner, fault.attribute)
    setattr(fault.owner, fault.attribute, fault.make(before))
    try:
        yield
    finally:
        setattr(fault.owner, fault.attribute, before)


# -- what they do ------------------------------------------------------------------------------------------------------


def _no_login_needed(_before: Any) -> Any:
    return lambda self, key, size: True


def _first_answer_is_consent(before: Any) -> Any:
    """SCRAM's first answer has no error."""

    def answered(self: Login, error_code: int, lifetime_ms: int) -> None:
        before(self, error_code, lifetime_ms)
        if not error_code and not self.accepted:
            self.accepted = True
            self._session.login_changed()

    return answered


def _named_before_the_proof(before: Any) -> Any:
    def says(self: Login, message: bytes) -> None:
        before(self, message)
        self._session.principal = self._claimed or ""

    return says


def _any_size(_before: Any) -> Any:
    """Before a login, as after it."""

    def takes(self: Login, api_key: int, size: int) -> bool:
        if api_key in (17, 18, 36):
            return True
        self._prove()
        return False

    return takes


def _quadratic(before: Any) -> Any:
    """Each entry is compared with all others."""

    def burn(*args: Any, **named: Any) -> Any:
        sum(1 for _ in range(3_000_000))
        return before(*args, **named)

    return burn


def _admin(_before: Any) -> Any:
    return lambda *_args: Caller("anybody", Role.ADMIN, "token")


def _nothing(_before: Any) -> Any:
    return lambda *_args, **_named: None


def _raises(error: Exception) -> Callable[[Any], Any]:
    def make(_before: Any) -> Any:
        def fails(*_args: Any, **_named: Any) -> Any:
            raise error

        return fails

    return make


def _unless_known(before: Any) -> Any:
    """A name that is no key is an error that nobody declared."""

    def handle(self: HeartbeatHandler, session: Any, exchange: Any) -> None:
        if self._gates.groups_of(session.identity) == frozenset():
            raise KeyError("the client has no group yet")
        before(self, session, exchange)

    return handle


def _undeclared(before: Any) -> Any:
    async def read(*args: Any) -> Any:
        try:
            return await before(*args)
        except MalformedPeer as exc:
            raise RecursionError from exc

    return read


FAULTS: Final = (
    Fault("before a login requests are taken", "touched_before_login", Login, "takes", _no_login_needed),
    Fault("a login is over with its first answer", "touched_before_login", Login, "answered", _first_answer_is_consent),
    Fault("a name counts before its proof", "touched_before_login", Login, "says", _named_before_the_proof),
    Fault("REST is everybody's", "touched_before_login", Credentials, "who", _admin),
    Fault("own names take long to find", "slow_frames", own_entries, "is_own", _quadratic),
    Fault("groups take long to remember", "slow_frames", SeenGroups, "add", _quadratic),
    Fault("a login may be of any size", "unbounded", Login, "takes", _any_size),
    Fault("what a closed connection held is held on", "unbounded", HeldRequests, "ended", _nothing),
    Fault("what a stranger held is held on", "unbounded", UnprovenRequests, "ended", _nothing),
    Fault("answers that are not taken stop nobody", "unbounded", Session, "mute", _nothing),
    Fault("a client without a group", "crashes", HeartbeatHandler, "handle", _unless_known),
    Fault("work in the background fails", "crashes", UnmirroredTopics, "exists_unmirrored", _raises(KeyError("topic"))),
    Fault("a peer's frame that is none", "crashes", serve, "read", _undeclared),
    Fault("a bad frame is an error of ours", "crashes", StreamError, "__init__", _raises(ValueError("a frame"))),
)


# -- the search --------------------------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.mutations", description=__doc__)
    parser.add_argument("--only", default="", help="those whose names begin so")
    args = parser.parse_args(argv)
    chosen = [fault for fault in FAULTS if fault.name.startswith(args.only)]
    with Theatre().opened() as theatre:
        for name in STAGES:
            theatre.stage(name)
        caught = sum(_is_found(theatre, fault) for fault in chosen)
    word = "PASS" if chosen and caught == len(chosen) else "FAIL"
    sys.stdout.write(f"fuzz-mutations: {word} seeded={len(chosen)} caught={caught}\n")
    return int(word == "FAIL")


def _is_found(theatre: Theatre, fault: Fault) -> bool:
    verdict, found = f"NOT FOUND in {_MOST} conversations", False
    for seed in range(_MOST):
        one = conversation(seed, theatre.stage(next(iter(STAGES))).topic_ids)
        with put_in(fault):
            result = theatre.had(one)
        seen = [finding for finding in result.findings if finding.kind == fault.kind]
        if seen:
            found = fault.kind not in theatre.had(one).kinds
            said = f"found in conversation {seed}: {seen[0].what[:200]}"
            verdict = said if found else f"FOUND WITHOUT IT, too, in conversation {seed}: {seen[0].what[:200]}"
            break
    sys.stdout.write(f"{fault.kind}: {fault.name}: {verdict}\n")
    sys.stdout.flush()
    return found


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.fuzz.mutations", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    sys.exit(main())
