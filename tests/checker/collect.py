"""Reads a history once, line by line: pairs invocations with their ends and fills the model.

What shows at once is counted at once: duplicates, inconsistent offsets, records read by their own transaction, and
groups that read on the wrong side.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable
from typing import Any

from tests.checker.model import (
    NEVER,
    Change,
    CommitBegun,
    CommitEnded,
    HistoryError,
    Model,
    Op,
    Outcome,
    Poll,
    Process,
    Reset,
    SideLog,
    Topic,
    Value,
    Write,
)
from tests.checker.sides import GroupSides
from tests.checker.verdict import Findings

_RECORDS = frozenset(("send", "poll", "txn"))
_OUTCOMES = {"ok": Outcome.OK, "fail": Outcome.FAIL, "unknown": Outcome.UNKNOWN}


def collect(lines: Iterable[str], findings: Findings) -> Model:
    """The model of a history.

    Raises:
        HistoryError: a line is not of the documented form.
    """
    collector = Collector(findings)
    enabled = gc.isenabled()
    gc.disable()  # nothing here is cyclic, and a million small objects make every collection long
    try:
        line = 0
        loads = json.loads
        try:
            for line, text in enumerate(lines, 1):
                if not text.isspace():
                    collector.feed(loads(text), line)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as exc:
            raise HistoryError(f"line {line}: {exc!r}") from exc
        collector.finish()
    finally:
        if enabled:
            gc.enable()
    return collector.model


class Collector:
    """Takes in one line after the other."""

    def __init__(self, findings: Findings) -> None:
        self.model = Model()
        self._findings = findings
        self._groups = GroupSides(self.model, findings)
        self._under_way: dict[Any, tuple[int, Op]] = {}
        self._events_of: dict[tuple[str, str], list[list[Any]]] = {}  # by reader
        self._events: dict[str, Callable[[Op, int], None]] = {
            "open": self._open,
            "setup": self._setup,
            "assign": self._reset,
            "revoke": self._reset,
            "log": self._final_log,
            "resent": self._resent,
            "mirrored": self._mirrored,
        }

    def feed(self, op: Op, line: int) -> None:
        """One line."""
        kind, what = op["type"], op["f"]
        if what == "fault":
            self.model.nemeses += kind == "invoke"
            return
        if (event := self._events.get(what)) is not None:
            if kind == "ok":
                event(op, line)
            return
        name = op["process"]
        key = name if (number := op.get("id")) is None else (name, number)
        if kind == "invoke":
            if key in self._under_way:
                raise HistoryError(f"line {line}: process {name!r} has an operation under way; give it an id")
            self._under_way[key] = line, op
            self._invoked(what, op, line)
            return
        begun = self._under_way.pop(key, None)
        if begun is None or begun[1]["f"] != what:
            raise HistoryError(f"line {line}: {kind} of a {what} of {name!r} that was not invoked")
        self.model.operations[kind] += 1
        self._ended(what, begun, op, line)

    def finish(self) -> None:
        """What has no end is unknown."""
        for line, op in self._under_way.values():
            self.model.operations["unknown"] += 1
            self._ended(op["f"], (line, op), {**op, "type": "unknown"}, NEVER)
        self._under_way.clear()
        for key, logs in self.model.logs.items():
            for log in logs.values():
                self._conclude(log, key)

    def _conclude(self, log: SideLog, key: str) -> None:
        """Compare what acknowledgements said with what was read."""
        for value, offset in log.told.items():
            read = log.offsets.setdefault(value, offset)
            held = log.values.setdefault(offset, value)
            if read != offset and (key, value) not in self.model.resent:
                self._findings.add(
                    "inconsistent-offsets", f"{value!r} of {key} was acknowledged at offset {offset}, read at {read}"
                )
            elif held != value:
                at = f"{value!r} was acknowledged at offset {offset} of {key}, which held {held!r}"
                self._findings.add("inconsistent-offsets", at)

    def _process(self, op: Op) -> Process:
        name = op["process"]
        found = self.model.processes.get(name)
        if found is None:
            found = self.model.processes[name] = Process(name, self.model.home)
        return found

    def _invoked(self, what: str, op: Op, line: int) -> None:
        if what in _RECORDS:
            process = self._process(op)
            for part in op["value"]:
                if part[0] == "send":
                    self._sent(process, part[1], part[2], line)
        elif what == "commit":
            process = self._process(op)
            for key, offset in op["value"].items():
                self._reader(process, key).append(CommitBegun(process, line, offset))
        elif what == "move":
            self._groups.begun(op["value"]["group"], op["value"]["to"])
        elif what != "cutover":
            raise HistoryError(f"line {line}: unknown operation {what!r}")

    def _sent(self, process: Process, key: str, value: Value, line: int) -> None:
        writes = self.model.writes.setdefault(key, {})
        if value in writes:
            raise HistoryError(f"line {line}: {value!r} was sent to {key} before; records must be told apart")
        writes[value] = Write(line)
        if process.ordered:
            self.model.sends.setdefault((process.name, key), []).append(value)

    def _ended(self, what: str, begun: tuple[int, Op], op: Op, line: int) -> None:
        outcome = _OUTCOMES[op["type"]]
        if what in _RECORDS:
            if outcome is Outcome.OK:
                self._records(self._process(op), begun, op["value"], line)
            else:
                self._without_answer(self._process(op), begun[1]["value"], outcome, line)
        elif what == "commit":
            process = self._process(op)
            for key in begun[1]["value"]:
                self._reader(process, key).append(CommitEnded(process, begun[0], outcome))
        elif what == "move":
            self._groups.ended(begun[1]["value"]["group"], outcome, line)
        elif outcome is not Outcome.FAIL:
            ended = line if outcome is Outcome.OK else NEVER
            for key in begun[1]["value"]["keys"]:
                self.model.cutovers.setdefault(key, []).append(Change(begun[1]["value"]["to"], begun[0], ended))

    # -- records -------------------------------------------------------------------------------------------

    def _records(self, process: Process, begun: tuple[int, Op], parts: list[Any], line: int) -> None:
        own: set[tuple[str, Value]] = set()
        polled = [part for part in parts if part[0] == "poll"]
        for part in parts:
            if part[0] != "send":
                continue
            key, (offset, value) = part[1], part[2]
            write = self.model.writes[key][value]
            write.outcome, write.ended = Outcome.OK, line
            if offset is not None:
                self.model.log(key, process.side).told[value] = offset
            if polled:
                own.add((key, value))
        for part in polled:
            if len(part) > 1:
                for key, records in part[1].items():
                    if records:
                        self._polled(process, key, records, begun[0], line, own)

    def _polled(
        self,
        process: Process,
        key: str,
        records: list[tuple[int, Value]],
        invoked: int,
        line: int,
        own: set[tuple[str, Value]],
    ) -> None:
        if process.group is not None:
            self._groups.read(process, key, invoked, line)
        if process.committed_only:
            self._read(self.model.log(key, process.side), key, records, line)
            for _, value in records if own else ():
                if (key, value) in own:
                    self._findings.add(
                        "precommitted-read", f"{process.name} read its own {value!r} of {key}, line {line}"
                    )
        self._reader(process, key).append(Poll(process, line, [offset for offset, _ in records]))

    def _read(self, log: SideLog, key: str, records: Iterable[tuple[int, Value]], line: int) -> None:
        values, offsets, seen = log.values, log.offsets, log.seen
        for offset, value in records:
            if value not in seen:
                seen[value] = line
            if values.get(offset) != value or offsets.get(value) != offset:
                self._place(log, key, offset, value, line)

    def _place(self, log: SideLog, key: str, offset: int, value: Value, line: int) -> None:
        """Take in that a record is at an offset."""
        held = log.values.setdefault(offset, value)
        if held != value:
            at = f"offset {offset} of {key} held {held!r} and {value!r}, line {line}"
            self._findings.add("inconsistent-offsets", at)
        first = log.offsets.setdefault(value, offset)
        if (key, value) in self.model.resent:
            log.offsets[value] = min(first, offset)  # a reader may have begun behind the first one
        elif first != offset:
            self._findings.add("duplicate", f"{value!r} of {key} at offsets {first} and {offset}, line {line}")

    def _without_answer(self, process: Process, parts: list[Any], outcome: Outcome, line: int) -> None:
        for part in parts:
            if part[0] == "send":
                write = self.model.writes[part[1]][part[2]]
                write.outcome, write.ended = outcome, line
            else:  # who knows how far the client went
                for events in self._events_of.get(process.reader, ()):
                    events.append(Reset(process))

    def _reader(self, process: Process, key: str) -> list[Any]:
        found = self.model.readers.get((process.reader, key))
        if found is None:
            found = self.model.readers[process.reader, key] = []
            self._events_of.setdefault(process.reader, []).append(found)
        return found

    # -- events --------------------------------------------------------------------------------------------

    def _open(self, op: Op, line: int) -> None:
        said = op["value"]
        process = self.model.processes[op["process"]] = Process(
            op["process"],
            said.get("side", self.model.home),
            said.get("group"),
            said.get("reset") == "earliest",
            said.get("isolation") != "read_uncommitted",
            said.get("ordered", True),
            said.get("commits", True),
        )
        if process.group is not None and process.side != self.model.direct:
            self.model.left.setdefault(process.group, line)

    def _setup(self, op: Op, _line: int) -> None:
        said = op["value"]
        self.model.home = said.get("home", "")
        self.model.migrates = "home" in said
        self.model.direct = said.get("direct", "")
        self.model.topics = {name: Topic(**each) for name, each in said.get("topics", {}).items()}
        self.model.group_homes = {name: each["side"] for name, each in said.get("groups", {}).items()}

    def _resent(self, op: Op, _line: int) -> None:
        self.model.resent.update((key, value) for key, values in op["value"].items() for value in values)

    def _mirrored(self, op: Op, _line: int) -> None:
        self.model.mirrored.update({key: (said["from"], said["to"]) for key, said in op["value"].items()})

    def _reset(self, op: Op, _line: int) -> None:
        process = self._process(op)
        for key in op["value"]:
            self._reader(process, key).append(Reset(process))

    def _final_log(self, op: Op, line: int) -> None:
        said = op["value"]
        log = self.model.log(said["key"], said["side"])
        log.pieces.append((said["start"], said["end"]))
        log.final.update(value for _, value in said["records"])
        self._read(log, said["key"], said["records"], line)
