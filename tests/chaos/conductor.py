"""Drives migrations in both directions while everything breaks, and records every cutover and every move of a group.

Each step is asked for until it is reached; a promote that was taken back is asked for again. A step that is not
reached within `PATIENCE_S` after the faults have ended is a fault of its own: `stuck`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from tests.chaos.aim import Aimed
from tests.chaos.cast import SETS, TOPICS, Cast
from tests.chaos.clients.java import JavaMember
from tests.chaos.clients.pipeline import GROUP
from tests.chaos.clients.producers import key_of
from tests.chaos.clients.readers import Member
from tests.chaos.gateways import Operator
from tests.chaos.lab import Lab
from tests.chaos.plan import PRODUCERS, Act, Plan

LINK: Final = "chaos"
SOURCE, TARGET = "source", "target"
PATIENCE_S: Final = 150.0
Shown = tuple[str, str]
"""State and direction of a mirror topic."""
MIGRATIONS: Final = {
    "promote": 1,
    "failback": 1,
    "roll": 1,
    "demote": 1,
    "create": 1,
    "fail_over": 3,
    "carry": 2,
    "fetch_back": 2,
    "reverse": 0,
}
_LOOK_S: Final = 0.2
_RECORDS: Final = 40
"""That a topic has at least before it is failed over."""
_AIMED: Final = 100_000
"""Numbers of aimed faults begin here, those of planned ones at 0."""
_ASK_AGAIN_S: Final = 2.0


class Stuck(Exception):
    """A step was not reached; the message says what it waits for."""


class Conductor(threading.Thread):
    """Performs the acts of a plan in their order. `done`: what was reached, and how long it took.

    `worth`: kind of an act -> how many migrations it is.
    """

    worth: Mapping[str, int] = MIGRATIONS

    def __init__(self, plan: Plan, lab: Lab, cast: Cast) -> None:
        super().__init__(name="conductor", daemon=True)
        self.done: list[dict[str, Any]] = []
        self.stuck = ""
        self.topics = dict(TOPICS)
        self._plan, self._lab, self._cast = plan, lab, cast
        self._recorder = cast.recorder
        self._over = threading.Event()
        self._give_up_at = float("inf")
        self._now = ""
        self._began = time.monotonic()
        self.aimed: list[dict[str, Any]] = []

    @property
    def migrations(self) -> int:
        """Cutovers of topic sets and moves of groups that were completed."""
        return sum(self.worth[act["kind"]] for act in self.done)

    def stop(self) -> None:
        """Begin no more; the step under way is brought to its end."""
        self._over.set()
        self._give_up_at = time.monotonic() + PATIENCE_S
        self.join(PATIENCE_S + 60.0)
        if self.is_alive():
            self.stuck = self.stuck or f"{self._now}: it does not return"

    def begins(self, began: float) -> None:
        """When the run began, by the monotonic clock: times of aimed faults count from there."""
        self._began = began

    def prepare(self) -> None:
        """Topics, link, mirrors: before anything breaks."""
        for topic, partitions in self.topics.items():
            self._lab.source.create_topic(topic, partitions)
        values = {"bootstrap.servers": self._lab.source.view(0), **self._lab.seeds.of_link}
        configs = [{"name": name, "value": value} for name, value in values.items()]
        self._lab.operator.insist("POST", "/v3/links", {"link_name": LINK, "configs": configs})
        for topic in self.topics:
            self._mirror(topic)

    def run(self) -> None:
        """All acts until `stop`."""
        for act in self._plan.acts:
            if self._over.wait(act.pause_s):
                return
            self._now = f"{act.kind} {act.what}"
            began = time.monotonic()
            try:
                getattr(self, f"_{act.kind}")(act)
            except Stuck as stuck:
                self.stuck = f"{self._now}: {stuck}"
                return
            except Exception as error:  # noqa: BLE001 - a conductor that died would let the run pass with less done
                self.stuck = f"{self._now}: {error!r}"
                return
            self.done.append({"kind": act.kind, "what": act.what, "took_s": round(time.monotonic() - began, 2)})

    # -- clients -------------------------------------------------------------------------------------------

    def _roll(self, act: Act) -> None:
        if act.what == PRODUCERS:
            for producer in self._cast.producers:
                producer.stop()
                producer.start(self._lab.gateway_bootstrap, TARGET)
            return
        group, members, began = act.what, self._cast.members[act.what], time.monotonic()
        # A group without an offset on the source is a new one at the gateway: there is nothing to promote.
        self._reach(
            lambda: self._lab.source.has_committed(group),
            lambda: self._cast.go_on_without_hung(tuple(members), began),
            self._group_path(group),
        )
        for member in members[:-1]:
            self._ended(member).start(self._lab.gateway_bootstrap, TARGET)
        last = self._ended(members[-1])
        self._move("invoke", group, TARGET)
        last.start(self._lab.gateway_bootstrap, TARGET)
        self._reach(lambda: self._group(group) == "PROMOTED", lambda: None, self._group_path(group))
        self._move("ok", group, TARGET)

    def _ended(self, member: Member | JavaMember) -> Member | JavaMember:
        """Who goes on in its place: it does, unless it hangs."""
        try:
            member.stop()
        except AssertionError:
            return self._cast.replace_hung(member)
        return member

    def _demote(self, act: Act) -> None:
        group, members = act.what, self._cast.members[act.what]
        for member in members:
            member.stop()
        self._move("invoke", group, SOURCE)
        path = self._group_path(group)
        self._reach(lambda: self._group(group) == "ACTIVE", lambda: self._ask("POST", f"{path}:demote", {}), path)
        self._move("ok", group, SOURCE)
        for member in members:
            member.start(self._lab.source.bootstrap, SOURCE)

    def _move(self, kind: str, group: str, to: str) -> None:
        self._recorder.write(kind, "control", "move", {"group": group, "to": to})

    def _carry(self, act: Act) -> None:
        """The pipeline's group, then what it writes; in between its transactions are refused."""
        self._roll(replace(act, what=GROUP))
        self._promote(act)

    def _fetch_back(self, act: Act) -> None:
        self._failback(act)
        self._demote(replace(act, what=GROUP))

    # -- topics --------------------------------------------------------------------------------------------

    def _create(self, act: Act) -> None:
        topic = act.what
        self._lab.source.create_topic(topic, 1)
        self.topics[topic] = 1
        producer = self._cast.extra(topic)
        producer.start(self._lab.source.bootstrap, SOURCE)
        self._mirror(topic)
        producer.stop()
        producer.start(self._lab.gateway_bootstrap, TARGET)
        self._cut_over((topic,), TARGET, "STOPPED", "FORWARD", act)
        producer.stop()

    def _fail_over(self, act: Act) -> None:
        """A failover leaves behind what is not mirrored: so nobody writes, and nothing may be lost. Then home."""
        topic = act.what
        self._lab.source.create_topic(topic, 1)
        self.topics[topic] = 1
        producer = self._cast.extra(topic)
        producer.start(self._lab.source.bootstrap, SOURCE)
        self._mirror(topic)
        producer.stop()
        producer.start(self._lab.gateway_bootstrap, TARGET)
        path = f"/v3/links/{LINK}/mirrors/{topic}"
        self._reach(lambda: self._source_end(topic) > _RECORDS, lambda: None, path)
        producer.stop()
        self._reach(lambda: self._is_level(topic), lambda: None, path)
        cut_over = {"keys": [key_of(topic, 0)], "to": TARGET}
        self._recorder.write("invoke", "control", "cutover", cut_over)
        self._change((topic,), "failover", ("ACTIVE", "FORWARD"), ("STOPPED", "FORWARD"), act)
        self._recorder.write("ok", "control", "cutover", cut_over)
        self._nothing_left_behind(path)
        producer.start(self._lab.gateway_bootstrap, TARGET)
        self._change((topic,), "truncate-and-restore", ("STOPPED", "FORWARD"), ("ACTIVE", "REVERSE"), act)
        self._cut_over((topic,), SOURCE, "ACTIVE", "FORWARD", act)
        producer.stop()

    def _lags(self, topic: str) -> list[dict[str, Any]]:
        code, answer = self._lab.operator.ask("GET", f"/v3/links/{LINK}/mirrors/{topic}")
        return list(answer["mirror_lags"]) if code == 200 else []

    def _source_end(self, topic: str) -> int:
        return max((int(one["source_end"] or 0) for one in self._lags(topic)), default=0)

    def _is_level(self, topic: str) -> bool:
        """All that is on the source is mirrored. A lag says so only of what the mirror had heard of by then."""
        end, lags = self._lab.source.log_end(topic), self._lags(topic)
        return end is not None and bool(lags) and all((one["mirrored_to"] or 0) >= end for one in lags)

    def _nothing_left_behind(self, path: str) -> None:
        """What the failover itself tells: nobody wrote, and all was mirrored. -1: it could not ask the source."""
        told: list[dict[str, int]] = []

        def is_told() -> bool:
            code, answer = self._lab.operator.ask("GET", path)
            told[:] = [answer["records_not_mirrored"]] if code == 200 else []
            return bool(told)

        self._reach(is_told, lambda: None, path)
        if any(count > 0 for count in told[0].values()):
            raise Stuck(f"the failover says that it left records behind: {told[0]}")

    def _mirror(self, topic: str) -> None:
        path = f"/v3/links/{LINK}/mirrors"
        self._reach(
            lambda: self._mirrors((topic,)) == {("ACTIVE", "FORWARD")},
            lambda: None if self._mirrors((topic,)) else self._ask("POST", path, {"source_topic_name": topic}),
            f"{path}/{topic}",
        )

    def _promote(self, act: Act) -> None:
        self._cut_over(tuple(SETS[act.what]), TARGET, "STOPPED", "FORWARD", act)

    def _failback(self, act: Act) -> None:
        self._cut_over(tuple(SETS[act.what]), SOURCE, "ACTIVE", "FORWARD", act)

    def _reverse(self, act: Act) -> None:
        self._change(
            tuple(SETS[act.what]), "reverse-and-start-mirror", ("STOPPED", "FORWARD"), ("ACTIVE", "REVERSE"), act
        )

    def _cut_over(self, topics: tuple[str, ...], to: str, state: str, direction: str, act: Act) -> None:
        cut_over = {"keys": [key_of(t, p) for t in topics for p in range(self.topics[t])], "to": to}
        self._recorder.write("invoke", "control", "cutover", cut_over)
        begin = ("ACTIVE", "FORWARD") if to == TARGET else ("ACTIVE", "REVERSE")
        with self._struck(act, topics):
            self._change(topics, "promote", begin, (state, direction), act)
        self._recorder.write("ok", "control", "cutover", cut_over)

    @contextmanager
    def _struck(self, act: Act, topics: tuple[str, ...]) -> Iterator[None]:
        """What is aimed at the operation strikes in its midst."""
        if act.aim is None or self._over.is_set():
            yield
            return
        number = _AIMED + len(self.aimed)
        states = partial(self._states, topics)
        aimed = Aimed(act.aim, self._lab, self._recorder, states, self._began, number)
        aimed.begin()
        try:
            yield
        finally:
            aimed.end()
            if aimed.done:
                self.aimed.append(aimed.done)
        if aimed.failed:
            raise Stuck(aimed.failed)

    def _states(self, topics: tuple[str, ...]) -> list[str]:
        code, answer = self._lab.operator.ask("GET", f"/v3/links/{LINK}/mirrors")
        return [m["mirror_status"] for m in answer["data"] if m["mirror_topic_name"] in topics] if code == 200 else []

    def _change(self, topics: tuple[str, ...], verb: str, begin: Shown, end: Shown, act: Act) -> None:
        """Ask for it until all topics are where it ends.

        A promote takes them as one set, so only while all are where it begins; a reverse takes each by itself, and one
        that was asked of a leader that fell may have taken some.
        """
        path = f"/v3/links/{LINK}/mirrors:{verb}"

        def ask() -> None:
            left = [topic for topic in topics if self._mirrors((topic,)) == {begin}]
            if not left or (verb == "promote" and len(left) < len(topics)):
                return
            body = {"mirror_topic_names": left, **({"force": True} if act.force else {})}
            body |= {"mirror_direction": begin[1]} if verb == "promote" else {}
            if act.twice:
                other = threading.Thread(target=self._ask, args=("POST", path, body), daemon=True)
                other.start()
                self._ask("POST", path, body)
                other.join()
            else:
                self._ask("POST", path, body)

        self._reach(lambda: self._mirrors(topics) == {end}, ask, f"/v3/links/{LINK}/mirrors/{topics[0]}")

    # -- asking --------------------------------------------------------------------------------------------

    def _reach(
        self, reached: Callable[[], bool], ask: Callable[[], None], describe: str, operator: Operator | None = None
    ) -> None:
        """Ask now and again until it is reached. `describe`: what to show of whoever is stuck, at `operator`."""
        asked_at = -float("inf")
        while not reached():
            now = time.monotonic()
            if now - asked_at >= _ASK_AGAIN_S:
                ask()
                asked_at = now
            if now >= self._give_up_at:
                raise Stuck(f"{self._said}; {(operator or self._lab.operator).ask('GET', describe)}")
            threading.Event().wait(_LOOK_S)

    _said: tuple[int, Any] = (0, "")

    def _ask(self, method: str, path: str, body: Any) -> None:
        self._said = self._lab.operator.ask(method, path, body)

    def _mirrors(self, topics: tuple[str, ...]) -> set[Shown]:
        """(state, direction) of the topics; empty when nobody tells, or one of them is not known."""
        code, answer = self._lab.operator.ask("GET", f"/v3/links/{LINK}/mirrors")
        if code != 200:
            return set()
        shown = {m["mirror_topic_name"]: (m["mirror_status"], m["mirror_direction"]) for m in answer["data"]}
        if any(state == "FAILED" for name, (state, _) in shown.items() if name in topics):
            raise Stuck(f"FAILED: {next(m for m in answer['data'] if m['mirror_status'] == 'FAILED')}")
        return {shown[topic] for topic in topics} if all(topic in shown for topic in topics) else set()

    def _group(self, group: str) -> str:
        code, answer = self._lab.operator.ask("GET", self._group_path(group))
        return str(answer["state"]) if code == 200 else ""

    def _group_path(self, group: str) -> str:
        return f"/v3/links/{LINK}/groups/{group}"
