"""Makes up the history of a whole migration, without faults: what the checker must call valid, and mutations spoil.

Two topics: `kept` preserves offsets, `moved` has transactions, whose markers and aborted records leave gaps on the
source that the target's log does not have. Two groups read both; one is moved early, one late.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from typing import Any

Op = dict[str, Any]
SOURCE, TARGET = "source", "target"


class _Log:
    """A partition on both sides: lists of records, None for an offset gap; a record's offset is its index."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.sides: dict[str, list[str | None]] = {SOURCE: [], TARGET: []}
        self.home = SOURCE
        self.mirrored = 0

    @property
    def keeps(self) -> bool:
        return self.key.startswith("kept")

    def append(self, values: list[str | None]) -> int:
        log = self.sides[self.home]
        log.extend(values)
        return len(log) - len(values)

    def mirror(self, most: int) -> None:
        if self.home is SOURCE:
            new = self.sides[SOURCE][self.mirrored : self.mirrored + most]
            self.mirrored += len(new)
            self.sides[TARGET].extend(value for value in new if value is not None or self.keeps)


class _Group:
    """A group of one member at a time, which commits after each poll."""

    def __init__(self, name: str, keys: list[str]) -> None:
        self.name, self.side, self.number = name, SOURCE, 0
        self.positions = dict.fromkeys(keys, 0)

    @property
    def member(self) -> str:
        return f"{self.name}-{self.number}"


class SimulatedHistory:
    """`lines()` gives the operations in order. The same seed gives the same history."""

    def __init__(self, seed: int, *, steps: int, partitions: int = 2, batch: int = 5) -> None:
        self._random = random.Random(seed)
        self._steps = steps
        self._batch = batch
        self._logs = {f"{t}/{p}": _Log(f"{t}/{p}") for t in ("kept", "moved") for p in range(partitions)}
        self._groups = [_Group(name, list(self._logs)) for name in ("early", "late")]
        self._producers = ["direct", "gateway"]
        self._in_flight: dict[str, deque[tuple[int, str, str]]] = {name: deque() for name in self._producers}
        self._sent = 0
        self._time = 0

    def operations(self) -> Iterator[Op]:
        """The whole history."""
        topics = {"kept": {"preserve": True}, "moved": {}}
        yield self._op("ok", "control", "setup", {"home": SOURCE, "topics": topics})
        yield self._op("ok", "direct", "open", {"side": SOURCE})
        yield self._op("ok", "gateway", "open", {"side": TARGET})
        yield self._op("ok", "bank", "open", {"side": TARGET})
        for group in self._groups:
            yield from self._join(group)
        yield self._op("invoke", "nemesis", "fault", "kill gateway 1")
        moves = {self._steps // 4: self._groups[0], self._steps // 2: self._groups[1]}
        for step in range(self._steps):
            if step in moves:
                yield from self._move(moves[step])
            if step == self._steps * 2 // 3:
                yield from self._cut_over()
            yield from self._random.choice(
                (self._send, self._send, self._finish, self._finish, self._poll, self._other)
            )()
        yield from self._end()

    def _op(self, kind: str, process: str, f: str, value: Any, number: int | None = None) -> Op:
        self._time += 1000
        op = {"type": kind, "process": process, "f": f, "time": self._time, "value": value}
        return op if number is None else {**op, "id": number}

    def _value(self, process: str) -> str:
        self._sent += 1
        return f"{process}:{self._sent}"

    # -- writes --------------------------------------------------------------------------------------------

    def _send(self) -> Iterator[Op]:
        process = self._random.choice(self._producers)
        if len(self._in_flight[process]) < 5:
            key, value = self._random.choice(list(self._logs)), self._value(process)
            if process == "direct" and self._logs[key].home is not SOURCE:
                return
            self._in_flight[process].append((self._sent, key, value))
            yield self._op("invoke", process, "send", [["send", key, value]], self._sent)

    def _finish(self) -> Iterator[Op]:
        process = self._random.choice(self._producers)
        if self._in_flight[process]:
            number, key, value = self._in_flight[process].popleft()
            kind = self._random.choices(("ok", "unknown", "fail"), (95, 4, 1))[0]
            answer: list[Any] = [["send", key, value]]
            if kind == "ok":
                answer = [["send", key, [self._write(process, key, value), value]]]
            elif kind == "unknown" and self._random.random() < 0.5:
                self._write(process, key, value)
            yield self._op(kind, process, "send", answer, number)

    def _write(self, process: str, key: str, value: str) -> int | None:
        log = self._logs[key]
        offset = log.append([value])
        seen_on = SOURCE if process == "direct" else TARGET
        return offset if log.home is seen_on or log.keeps else None

    def _transaction(self) -> Iterator[Op]:
        """Writes to `moved`, one partition or several."""
        keys = [key for key in self._logs if key.startswith("moved")]
        parts: list[tuple[str, str]] = [(self._random.choice(keys), self._value("bank")) for _ in range(3)]
        yield self._op("invoke", "bank", "txn", [["send", key, value] for key, value in parts])
        committed = self._random.random() < 0.8
        answer = []
        for key, value in parts:
            offset = self._logs[key].append([value if committed else None])
            answer.append(["send", key, [offset if self._logs[key].home is TARGET else None, value]])
        for key in {key for key, _ in parts}:
            self._logs[key].append([None])
        yield self._op("ok" if committed else "fail", "bank", "txn", answer)

    def _other(self) -> Iterator[Op]:
        choice = self._random.random()
        if choice < 0.1:
            yield from self._transaction()
        elif choice < 0.2:
            group = self._random.choice(self._groups)
            group.number += 1
            yield from self._join(group)
        else:
            for log in self._logs.values():
                log.mirror(self._random.randrange(20))

    # -- groups --------------------------------------------------------------------------------------------

    def _join(self, group: _Group) -> Iterator[Op]:
        yield self._op("ok", group.member, "open", {"side": group.side, "group": group.name, "reset": "earliest"})
        yield self._op("ok", group.member, "assign", list(self._logs))

    def _poll(self, group: _Group | None = None) -> Iterator[Op]:
        group = group or self._random.choice(self._groups)
        read: dict[str, list[list[Any]]] = {}
        positions = {}
        for key, log in self._logs.items():
            at, records = group.positions[key], log.sides[group.side]
            until = min(at + self._batch, len(records))
            found = [[offset, records[offset]] for offset in range(at, until) if records[offset] is not None]
            if found:
                read[key] = found
            if until > at:
                positions[key] = until
        yield self._op("invoke", group.member, "poll", [["poll"]])
        yield self._op("ok", group.member, "poll", [["poll", read]])
        if positions:
            yield self._op("invoke", group.member, "commit", positions)
            group.positions.update(positions)
            yield self._op("ok", group.member, "commit", positions)

    def _move(self, group: _Group) -> Iterator[Op]:
        """The last member leaves, offsets are carried over, the gate opens."""
        value = {"group": group.name, "to": TARGET}
        yield self._op("invoke", "control", "move", value)
        for key, log in self._logs.items():
            log.mirror(len(log.sides[SOURCE]))
            if not log.keeps:
                held = log.sides[SOURCE][: group.positions[key]]
                group.positions[key] = len(held) - held.count(None)
        yield self._op("ok", "control", "move", value)
        group.side, group.number = TARGET, group.number + 1
        yield from self._join(group)

    def _cut_over(self) -> Iterator[Op]:
        value = {"keys": list(self._logs), "to": TARGET}
        yield self._op("invoke", "control", "cutover", value)
        while any(self._in_flight.values()):
            yield from self._finish()
        for log in self._logs.values():
            log.mirror(len(log.sides[SOURCE]))
            log.home = TARGET
        yield self._op("ok", "control", "cutover", value)

    def _end(self) -> Iterator[Op]:
        while any(self._in_flight.values()):
            yield from self._finish()
        for group in self._groups:
            while any(group.positions[key] < len(log.sides[group.side]) for key, log in self._logs.items()):
                yield from self._poll(group)
        for key, log in self._logs.items():
            for side, held in log.sides.items():
                records = [[offset, value] for offset, value in enumerate(held) if value is not None]
                piece = {"side": side, "key": key, "start": 0, "end": len(held), "records": records}
                yield self._op("ok", "control", "log", piece)
