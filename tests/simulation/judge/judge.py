"""Puts the judgements of a run together: `Judge.look` while it goes on, `Judge.verdict` at its end.

`look` reads what is new in the state topic, and costs nothing when there is nothing. It records each cutover of a topic
and each move of a group that it sees, so that nobody else has to; and at each cutover it compares both clusters, while
what was there is still there. Who wrote a record may know that it is committed long before a reader is given it (a
replica is gone, and not fenced yet): a change may have happened from the last look on that did not find its record.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import inf
from typing import Any, Final

from gateway.state.records import GroupRecord, GroupState, LinkRecord, MirrorMode, MirrorRecord, MirrorState
from tests.simulation.fleet.looks import Look
from tests.simulation.judge.called_off import CallOffClaims
from tests.simulation.judge.excused import Excused
from tests.simulation.judge.findings import Findings
from tests.simulation.judge.groups import (
    Committed,
    came_unseen,
    failed_over,
    goes_on_at,
    judge_carried,
    judge_failed_over,
    judge_known,
    judge_source,
    last_look,
    members_after_promote,
)
from tests.simulation.judge.history import judge_history, writes_of
from tests.simulation.judge.late_writers import ends_rightly
from tests.simulation.judge.logs import (
    Pair,
    common,
    compare,
    compare_latest,
    data,
    judge_account,
    judge_stopped,
    pair_of,
    records_after_cutover,
)
from tests.simulation.judge.maps import LinkMap, judge_map, read_map
from tests.simulation.judge.outcome import Ended, Verdict
from tests.simulation.judge.pipelines import judge_pipeline
from tests.simulation.judge.state import (
    Entry,
    Logs,
    Snapshot,
    StateView,
    group_side,
    side_of,
    torn_sets,
    was_failed_over,
)
from tests.simulation.judge.torn import judge_transactions
from tests.simulation.recorder import SOURCE, TARGET, Op, Recorder, final_log

WATCH: Final = "watch"
_FAILED: Final = (MirrorState.FAILED, MirrorState.LINK_FAILED)
_MADE_ANEW: Final = (MirrorState.PENDING_RESTORE_MIRROR, MirrorState.ACTIVE)
_SEEN_LATE_S: Final = 1.0
"""A record is looked at within that time."""
_REMEMBERED_S: Final = 12.0
"""For so long before a record what a group had committed is remembered: longer than a promote may be without a look at
its members, and than a look lasts."""
_RESTING: Final = (MirrorState.ACTIVE, MirrorState.PAUSED, MirrorState.STOPPED, *_FAILED)


class Judge:
    """Args:
    recorder: the history of the run.
    source, target: the cluster models.
    clock: virtual seconds.
    compacted: topics whose records may vanish.
    groups: group -> side on which it reads at the start, where that cannot be seen.
    allowed_failures: mirror topics that may FAIL in this run; `allowed` may be changed as it goes on.
    pipelines: topics that are read, and those that are written from them, once per record.
    links: those whose mirrors and groups are judged here; all when there are none.
    told: whether a topic, by its name on either side, has its history here; else its logs are compared, no more.
    looked: by link and group: the last look at the members that a promote went by, if that is known.
    ack_both: gateways answer a write when it is on both clusters.
    """

    def __init__(
        self,
        recorder: Recorder,
        source: Logs,
        target: Logs,
        clock: Callable[[], float],
        *,
        compacted: Collection[str] = (),
        groups: Mapping[str, str] | None = None,
        allowed_failures: Collection[str] = (),
        pipelines: Collection[tuple[str, str]] = (),
        links: Collection[str] = (),
        told: Callable[[str], bool] = lambda _topic: True,
        looked: Callable[[str, str], Look | None] = lambda _link, _group: None,
        ack_both: bool = False,
    ) -> None:
        self.findings = Findings()
        self.state = StateView(target, self.findings, links=frozenset(links))
        self.call_offs = CallOffClaims(self.findings)
        self._told, self._looked = told, looked
        self._last_looks: dict[str, float] = {}  # by the process of a group's move
        self.cutovers = self.moves = 0
        self._recorder, self._source, self._target, self._clock = recorder, source, target, clock
        self._compacted = frozenset(compacted)
        self._groups = dict(groups or {})
        self.allowed = set(allowed_failures)
        self.begin_anew: set[str] = set()  # groups whose owner has deleted what they had committed
        self.grown: set[str] = set()  # topics whose owner adds partitions at any time, also behind a cutover
        self._pipelines = pipelines
        # where the state topic ended, how many operations there were, and when
        self._looks = [(0, len(recorder.ops), clock())]
        self._sides: dict[str, str] = {}  # mirror topic -> where it is written
        self._group_sides: dict[str, str] = {}
        self._failed_over: set[str] = set()
        self._demoted: set[str] = set()
        self._cutover_at: dict[str, float] = {}  # key -> when it was seen
        self._excused = Excused(recorder, self._cutover_at, ack_both=ack_both)
        self.late = 0
        self._committed: dict[str, deque[tuple[float, Committed]]] = {}  # group -> on the source, as seen last

    # -- while it goes on ------------------------------------------------------------------------------------

    def look(self) -> None:
        """What is new? Called every some tens of milliseconds, and right after each step of an operation."""
        now = self._clock()
        entries = self.state.read(now)
        if entries:
            with self._at_once():
                self._look_at(entries)
        self._looks.append((self.state.end, len(self._recorder.ops), now))
        while len(self._looks) > 1 and self._looks[1][0] <= self.state.position:
            del self._looks[0]
        for group in self.state.groups:
            looks = self._committed.setdefault(group.source_name, deque())
            looks.append((now, self._source.committed(group.source_name)))
            while len(looks) > 1 and looks[1][0] < self._looks[0][2] - _REMEMBERED_S:
                looks.popleft()

    def _look_at(self, entries: Sequence[Entry]) -> None:
        cut_over: dict[str, MirrorRecord] = {}
        for entry in entries:
            said = entry.record
            if not self.state.is_looked_at(said):
                continue
            if isinstance(said, MirrorRecord):
                self._look_at_mirror(entry, said, cut_over)
            elif isinstance(said, GroupRecord):
                self._look_at_group(entry, said)
        for topic, other in torn_sets(entries):
            self.findings.add("broken", topic, f"its set is cut over without '{other}'", self._clock())
        for topic, mirror in sorted(cut_over.items()):
            self._look_for_more_partitions(mirror)
            for pair in self._pairs(mirror):
                compare(pair, self.findings, self._clock(), level=False, failed_over=topic in self._failed_over)

    def _look_for_more_partitions(self, mirror: MirrorRecord) -> None:
        """Those that the source has, and its mirror does not, nobody will ever copy."""
        there, count = self._partitions(self._source, mirror.source_topic), len(mirror.starts)
        while mirror.mirror_topic in self.grown and there > count:
            if self._source.log_range(mirror.source_topic, there - 1)[1]:
                break
            there -= 1  # it may have come behind the cutover, and nobody has written to it
        if side_of(mirror) == TARGET and there > count and mirror.mirror_topic not in self._failed_over:
            what = f"the source has {there} partitions, and {count} were mirrored"
            self.findings.add("lost", mirror.mirror_topic, what, self._clock())

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """What is judged in here is judged of one instant: each log is decoded once.

        The garbage collector waits: nothing here is cyclic, and what a whole run has made takes long to look through.
        """
        source, target, collects = self._source, self._target, gc.isenabled()
        self._source, self._target = Snapshot(source), Snapshot(target)
        gc.disable()
        try:
            yield
        finally:
            self._source, self._target = source, target
            if collects:
                gc.enable()

    def _look_at_mirror(self, entry: Entry, said: MirrorRecord, cut_over: dict[str, MirrorRecord]) -> None:
        topic, now = said.mirror_topic, self._clock()
        self.call_offs.seen(entry.before if isinstance(entry.before, MirrorRecord) else None, said, now)
        if was_failed_over(entry):
            self._failed_over.add(topic)
            self._excuse(said)
        elif not said.cutover.not_mirrored and said.state in _MADE_ANEW:
            self._excused.made_anew(topic, now)
            if said.state is MirrorState.ACTIVE:
                self._failed_over.discard(topic)  # both logs were made the same again
        before = entry.before.state if isinstance(entry.before, MirrorRecord) else None
        if nobodys := ends_rightly(said, self._source, self._excused.is_nobodys):
            for index, begin in nobodys.items():
                self._excused.broken_off(f"{topic}/{index}", begin)
        elif said.state in _FAILED and before not in _FAILED and topic not in self.allowed:
            what = f"{said.state}: {said.error} {said.error_message}"
            self.findings.add("failed_topics", topic, what, now)
        side, old = side_of(said), self._sides.get(topic, SOURCE)
        self._sides[topic] = side
        if side != old:
            self.cutovers += 1
            cut_over[topic] = said
            keys = [f"{topic}/{index}" for index in range(self._partitions(self._target, topic))]
            self._cutover_at.update(dict.fromkeys(keys, now))
            self._changed("cutover", {"keys": keys, "to": side}, entry)

    def _look_at_group(self, entry: Entry, said: GroupRecord) -> None:
        now, side = self._clock(), group_side(said)
        old = self._group_sides.get(said.group, SOURCE)
        self._group_sides[said.group] = side
        if said.state is GroupState.FAILED:
            self.findings.add("failed_topics", f"group {said.group}", said.error_message, now)
        if side == old:
            return
        self.moves += 1
        if said.group in self.begin_anew:
            self._recorder.told(said.group, self._begins_at(said, side), side)
        since = self._changed("move", {"group": said.group, "to": side}, entry)
        if side == SOURCE:
            self._demoted.add(said.group)
            return
        told = None if failed_over(said) else self._looked(said.link, said.group)
        looked = self._last_looks[self._mover] = last_look(since, told)
        ours = [each for each in self.state.mirrors if each.link == said.link]
        judge_failed_over(said, ours, self._target, self.findings, now)
        if failed_over(said):
            judge_known(said, self._recorder.ops, self._recorder.sides, self.findings, now)
            self._recorder.told(said.group, goes_on_at(said, self.state.mirrors, self._target), TARGET)
            return
        pairs = {
            (mirror.mirror_topic, pair.partition): pair
            for mirror in self.state.mirrors
            if mirror.link == said.link and mirror.mirror_topic not in self._failed_over
            for pair in self._pairs(mirror)
        }
        judge_carried(said, pairs, self.findings, now)
        name = said.source_name
        came = came_unseen(name, self._recorder.ops, self._recorder.sides, looked)
        before = [committed for at, committed in self._committed.get(name, ()) if at <= came]
        unseen = before[-1] if came < inf and before else None
        judge_source(said, pairs, self._source.committed(name), unseen, self.findings, now)

    def _begins_at(self, group: GroupRecord, side: str) -> dict[str, int]:
        """Key -> where it goes on there: by what the cluster holds of it, at the beginning where that is nothing."""
        cluster = self._source if side == SOURCE else self._target
        held = cluster.committed(group.source_name if side == SOURCE else group.group)
        found: dict[str, int] = {}
        for mirror in self.state.mirrors:
            name = mirror.source_topic if side == SOURCE else mirror.mirror_topic
            if mirror.link == group.link and name in cluster.topic_names():
                for index in range(len(mirror.starts)):
                    start = cluster.log_range(name, index)[0]
                    found[f"{mirror.mirror_topic}/{index}"] = max(start, held.get((name, index), 0))
        return found

    @property
    def _mover(self) -> str:
        """The process of the cutover or move that was seen last."""
        return f"{WATCH}-{self.cutovers + self.moves}"

    def _changed(self, f: str, value: Any, entry: Entry) -> float:
        """From the last look that did not find its record in the log, to this one, it happened. When it began."""
        since, at = next((ops, at) for end, ops, at in reversed(self._looks) if end <= entry.offset)
        self._recorder.changed(f, value, since, at, self._mover)
        self._looks = [(end, ops + (ops > since), then) for end, ops, then in self._looks]
        return at

    def _excuse(self, mirror: MirrorRecord) -> None:
        """What a failover leaves on the source alone is lost by command. Where it says that a retry may come twice,
        what is under way may."""
        for index in mirror.cutover.retries_unknown:
            key = f"{mirror.mirror_topic}/{index}"
            self._recorder.sent_again(key, self._recorder.under_way(key, self._clock() - _SEEN_LATE_S))
        for pair in self._pairs(mirror):
            judge_stopped(pair, self.findings, self._clock())
            alone = pair.source[common(pair) :]
            judge_account(pair, alone, self._recorder, self.findings, self._clock())
            if alone:
                values = (record.value for record in alone if record.value is not None)
                self._excused.left_behind(pair.where, values, alone[0].offset)

    def _pairs(self, mirror: MirrorRecord) -> Iterator[Pair]:
        here, there = self._source.topic_names(), self._target.topic_names()
        if mirror.source_topic not in here or mirror.mirror_topic not in there:
            return
        for index in range(min(len(mirror.starts), self._partitions(self._target, mirror.mirror_topic))):
            if index < self._partitions(self._source, mirror.source_topic):
                yield pair_of(mirror, index, self._source, self._target)

    @staticmethod
    def _partitions(cluster: Any, topic: str) -> int:
        return len(cluster.topics[topic].partitions) if topic in cluster.topics else 0

    def pairs(self, mirror: MirrorRecord) -> list[Pair]:
        """Both logs of each partition of a mirror, as they are now."""
        with self._at_once():
            return list(self._pairs(mirror))

    def state_lost(self, end: int) -> None:
        """The state topic ends there again: what comes behind it is new."""
        self.state.position = min(self.state.position, end)
        self.call_offs.state_lost()
        self._looks = [(min(until, end), ops, at) for until, ops, at in self._looks]

    def deleted(self, key: str, values: Iterable[bytes | None]) -> None:
        """Records are deleted where their topic is written: they may be anywhere, or nowhere."""
        self._excused.deleted(key, values)

    def topic_gone(self, topic: str, now: float) -> None:
        """Its owner has deleted a topic on a cluster: nobody reads it any more, and its history ends here.

        What must be left of it on the other one, whoever knows the topic judges.
        """
        self._excused.topic_gone(topic, now)

    def nobodys(self, producer: str) -> None:
        """Somebody writes to the source whom nobody has told of the cutover."""
        self._excused.nobodys(producer)

    def is_broken_off(self, topic: str) -> bool:
        """Its mirror back is FAILED, and rightly so: see `late_writers.py`."""
        return self._excused.is_broken_off(topic)

    # -- at the end ------------------------------------------------------------------------------------------

    def verdict(
        self,
        *,
        stuck: Iterable[str] = (),
        clients: Iterable[Ended] = (),
        lossy: bool = False,
        at_rest: bool = True,
    ) -> Verdict:
        """Judge the whole run.

        Args:
            stuck: what did not come to its end, in words.
            clients: those that were to come to an end in order.
            lossy: what was acknowledged with acks=1 may be lost.
            at_rest: nothing is written any more, and everything had time to come to its end.
        """
        self.look()
        with self._at_once():
            return self._verdict(stuck, clients, lossy, at_rest)

    def _verdict(self, stuck: Iterable[str], clients: Iterable[Ended], lossy: bool, at_rest: bool) -> Verdict:
        now = self._clock()
        self.late = 0
        for what in stuck:
            self.findings.add("stuck", "run", what, now)
        self._judge_clients(clients, now)
        if at_rest:
            self._judge_states(now)
        self._judge_logs(now, at_rest)
        lists = {
            side: {key: [text for _, text in records] for key, _, _, records in self._final(side)}
            for side in (SOURCE, TARGET)
        }
        for topics in self._pipelines:
            if at_rest and not self._failed_over.intersection(topics):
                judge_pipeline(topics, self._sides, lists, SOURCE, self.findings, now)
        held = {side: {key: set(texts) for key, texts in logs.items()} for side, logs in lists.items()}
        judge_transactions(self._recorder.ops, held, cache(self._whole), self.findings)
        operations, records = judge_history(list(self._operations(lossy)), self.findings, now)
        return Verdict(
            operations=operations,
            records=records,
            counts=dict(self.findings.counts),
            examples={name: list(each) for name, each in self.findings.examples.items()},
            cutovers=self.cutovers,
            moves=self.moves,
            late=self.late,
        )

    def _judge_clients(self, clients: Iterable[Ended], now: float) -> None:
        for client in clients:
            if client.running:
                self.findings.add("stuck", f"client {client.name}", "it was to stop, and did not", now)
            elif client.fatal and not client.revives:
                self.findings.add("stuck", f"client {client.name}", f"it was ended by {client.fatal}", now)

    def _judge_states(self, now: float) -> None:
        for mirror in self.state.mirrors:
            if mirror.state not in _RESTING:
                self.findings.add("stuck", mirror.mirror_topic, f"it is {mirror.state} at rest", now)
        for group in self.state.groups:
            if group.state is GroupState.PENDING_PROMOTED and f"group {group.group}" not in self.allowed:
                self.findings.add("stuck", f"group {group.group}", f"it is {group.state} at rest", now)

    def _judge_logs(self, now: float, at_rest: bool) -> None:
        maps = {
            link.name: LinkMap(
                link.link_id,
                *read_map(self._target, link.name, self.findings, now),
                source=self._source,
                target=self._target,
            )
            for link in self.state.latest.values()
            if isinstance(link, LinkRecord)
        }
        for mirror in self.state.mirrors:
            for pair in self._pairs(mirror):
                failed_over = mirror.mirror_topic in self._failed_over
                compare(pair, self.findings, now, level=at_rest, failed_over=failed_over)
                if at_rest and self._is_compacted(mirror.mirror_topic):
                    compare_latest(pair, self.findings, now)
                if mirror.link in maps:
                    judge_map(pair, maps[mirror.link], self.findings, now)
                if not failed_over and self._told(mirror.mirror_topic):
                    self._judge_late(pair, now)

    def _judge_late(self, pair: Pair, now: float) -> None:
        """What landed on the source behind the cutover: a record after the cutover if nobody was told of it, else a
        split write."""
        late = records_after_cutover(pair)
        if not late:
            return
        writes = writes_of(self._recorder.ops, pair.where)
        for record, there in late:
            text = (record.value or b"").decode(errors="replace")
            write = writes.get(text)
            if there is not None and write is not None and (write.end != "ok" or write.told == there.offset):
                self._is_late(pair.where, text)  # the answer, if there was one, was of the target's
            elif there is not None:
                what = f"{text!r} is on the source at {record.offset}, behind the cutover, and on the target, too"
                self.findings.add("split_writes", pair.where, f"{what}, at {there.offset}", now)
            elif write is not None and write.end != "ok" and write.invoked <= self._cutover_at.get(pair.where, 0.0):
                self._is_late(pair.where, text)
            # else: it is on the source alone, and the history tells whose fault that is

    def _is_late(self, key: str, text: str) -> None:
        self.late += 1
        self._excused.late(key, text)

    def _operations(self, lossy: bool) -> Iterator[Op]:
        """The history as the checker takes it."""
        mirrors = {mirror.mirror_topic: mirror for mirror in self.state.mirrors}
        names = [t for t in self._target.topic_names() if not t.startswith("__") and self._told(t)]
        own = [t for t in names if t not in self._sides]
        topics = {
            topic: {
                "preserve": topic in mirrors and mirrors[topic].mode is MirrorMode.PRESERVE,
                "compacted": self._is_compacted(topic),
            }
            for topic in sorted({*mirrors, *own, *self._compacted})
        }
        here = self._source.topic_names()
        at_target = [f"{t}/{i}" for t in own if t not in here for i in range(self._partitions(self._target, t))]
        logs = [
            final_log(side, key, start, end, self._excused.known(side, key, records))
            for side in (SOURCE, TARGET)
            for key, start, end, records in self._final(side)
        ]
        found = self._recorder.operations(topics, logs, groups=self._homes(), lossy=lossy, at_target=at_target)
        kept_from = self._kept_from()
        translated = {topic for topic, mirror in mirrors.items() if mirror.mode is MirrorMode.TRANSLATE}
        late = members_after_promote(self._recorder.ops, self._recorder.sides, self._last_looks)
        seen = (
            op for op in found if op["f"] not in ("poll", "commit") or op["time"] / 1e9 >= late.get(op["process"], 0)
        )
        read = (op for op in seen if not self._excused.is_of_gone(op))
        return (self._excused.excusing(self._placed(op, translated), kept_from) for op in read)

    def _placed(self, op: Op, translated: Collection[str]) -> Op:
        """Without the offsets that a gateway told of topics whose offsets are translated: those of the cluster on which
        the topic was written then, which the history cannot tell.
        """
        if op["type"] != "ok" or op["f"] != "send" or self._recorder.sides.get(op["process"]) != TARGET:
            return op
        if not any(part[1].rpartition("/")[0] in translated for part in op["value"]):
            return op
        return {**op, "value": [[what, key, [None, told[1]]] for what, key, told in op["value"]]}

    def _kept_from(self) -> dict[str, float]:
        """Of partitions that have lost their beginning where they are written: when the first record left was sent.

        What was acknowledged before that may be gone.
        """
        first: dict[str, str | None] = {}
        for side in (SOURCE, TARGET):
            for key, start, _, records in self._final(side):
                if start and self._sides.get(key.rpartition("/")[0], SOURCE) == side:
                    first[key] = records[0][1] if records else None
        if not first:
            return {}
        found = {key: float("inf") for key in first}
        for op in self._recorder.ops:
            if op["type"] == "invoke" and op["f"] in ("send", "txn"):
                for part in op["value"]:
                    if part[0] == "send" and part[2] == first.get(part[1], ""):
                        found[part[1]] = op["time"]
        return found

    def _homes(self) -> dict[str, str]:
        """Group -> where it reads at the start: on the source, if it was ever seen there or is mirrored."""
        homes: dict[str, str] = {}
        for op in self._recorder.ops:
            if op["f"] == "open" and (group := op["value"].get("group")) is not None:
                homes.setdefault(group, TARGET)
                if op["value"].get("side") == SOURCE:
                    homes[group] = SOURCE
        return {**homes, **dict.fromkeys(self._group_sides, SOURCE), **self._groups}

    def _final(self, side: str) -> Iterator[tuple[str, int, int, Sequence[tuple[int, str]]]]:
        """Key, log start, log end and records of every partition of a cluster."""
        cluster = self._source if side == SOURCE else self._target
        for topic in cluster.topic_names():
            if topic.startswith("__") or not self._told(topic):
                continue
            for index in range(self._partitions(cluster, topic)):
                start, end, *_ = cluster.log_range(topic, index)
                records = [
                    (record.offset, record.value.decode(errors="replace"))
                    for record in data(cluster, topic, index)
                    if record.value is not None
                ]
                yield self._recorder.key(side, topic, index), start, end, records

    def _is_compacted(self, topic: str) -> bool:
        return topic in self._compacted or any(m.compacted for m in self.state.mirrors if m.mirror_topic == topic)

    def _whole(self, side: str, key: str) -> bool:
        """Everything that was ever to be in this log should be there."""
        topic, _, number = key.rpartition("/")
        mirror = next((each for each in self.state.mirrors if each.mirror_topic == topic), None)
        if topic in self._failed_over or self._is_compacted(topic):
            return False
        cluster = self._source if side == SOURCE else self._target
        name = mirror.source_topic if mirror is not None and side == SOURCE else topic
        start = cluster.log_range(name, int(number))[0]
        if mirror is None:
            return start == 0
        if mirror.state not in (MirrorState.ACTIVE, MirrorState.STOPPED):
            return False
        begin = mirror.starts[int(number)].source_start if int(number) < len(mirror.starts) else 0
        return start <= begin


def verdict(
    history: Recorder,
    source: Logs,
    target: Logs,
    gateways: Sequence[object] = (),
    *,
    clock: Callable[[], float],
    clients: Iterable[Ended] = (),
    **options: Any,
) -> Verdict:
    """Judge a run that nobody looked at while it went on. `options`: as `Judge`'s."""
    del gateways  # everything is judged by what clients saw, and by the logs
    return Judge(history, source, target, clock, **options).verdict(clients=clients)
