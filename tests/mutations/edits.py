"""Ways to look into a history and to change it: a list of operations as dicts, changed in place."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Op = dict[str, Any]
Record = list[Any]  # [offset, value]


class History:
    """A copy of a history that is to be spoilt. Random choices are from `random`, so that a seed repeats them."""

    def __init__(self, operations: list[Op], seed: int) -> None:
        self.operations = deepcopy(operations)
        self.random = random.Random(seed)
        self.sides: dict[str, str] = {}
        self.groups: dict[str, str] = {}
        for op in self.operations:
            if op["f"] == "open":
                self.sides[op["process"]] = op["value"].get("side", "")
                self.groups[op["process"]] = op["value"].get("group", "")

    def lines(self) -> list[str]:
        """As the checker reads it."""
        return [json.dumps(op) + "\n" for op in self.operations]

    def of(self, kind: str, *what: str) -> Iterator[tuple[int, Op]]:
        """Position and operation of every line of a kind and function."""
        for at, op in enumerate(self.operations):
            if op["type"] == kind and op["f"] in what:
                yield at, op

    def choose(self, found: list[Any]) -> Any:
        """One of them.

        Raises:
            AssertionError: there is none: the history is too short for this fault.
        """
        assert found, "the history has nothing that this fault could be seeded into"
        return self.random.choice(found)

    def polls(self, side: str | None = None) -> list[tuple[int, str, str, list[Record]]]:
        """(position, process, key, records) of what polls got, optionally on one side."""
        return [
            (at, op["process"], key, records)
            for at, op in self.of("ok", "poll", "txn")
            if side is None or self.sides[op["process"]] == side
            for part in op["value"]
            if part[0] == "poll" and len(part) > 1
            for key, records in part[1].items()
        ]

    def reads(self, key: str, side: str | None = None) -> list[list[Record]]:
        """Every list of records that somebody got of a key, on one side or both: polls and final logs."""
        found = [records for _, _, of, records in self.polls(side) if of == key]
        return found + [log["records"] for log in self.logs(key, side)]

    def logs(self, key: str | None = None, side: str | None = None) -> list[dict[str, Any]]:
        """Final logs."""
        values = [op["value"] for _, op in self.of("ok", "log")]
        return [v for v in values if (key is None or v["key"] == key) and (side is None or v["side"] == side)]

    def without_logs(self) -> None:
        """Forget what was read at the end."""
        self.operations = [op for op in self.operations if op["f"] != "log"]

    def sent(self, kind: str) -> list[tuple[int, str, str, Any]]:
        """(position, process, key, value) of the records whose write ended so."""
        begun: dict[Any, Op] = {}
        found = []
        for at, op in enumerate(self.operations):
            if op["f"] not in ("send", "txn"):
                continue
            name = (op["process"], op.get("id"))
            if op["type"] == "invoke":
                begun[name] = op
            elif op["type"] == kind:
                parts = [part for part in begun[name]["value"] if part[0] == "send"]
                found += [(at, op["process"], part[1], part[2]) for part in parts]
        return found

    def remove(self, key: str, value: Any, side: str | None = None) -> None:
        """Nobody ever read the record there."""
        for records in self.reads(key, side):
            records[:] = [record for record in records if record[1] != value]

    def rename(self, key: str, names: dict[Any, Any], side: str | None = None) -> None:
        """Everybody read other records there; on both sides: acknowledgements name the other offsets, too."""
        for records in self.reads(key, side):
            for record in records:
                record[1] = names.get(record[1], record[1])
        if side is None:
            self._swap_acknowledged(key, names)

    def _swap_acknowledged(self, key: str, names: dict[Any, Any]) -> None:
        parts = [p for _, op in self.of("ok", "send", "txn") for p in op["value"] if p[0] == "send" and p[1] == key]
        offsets = {part[2][1]: part[2][0] for part in parts if part[2][1] in names}
        for part in parts:
            if part[2][1] in names:
                part[2][0] = offsets.get(names[part[2][1]])

    def insert_write(self, at: int, process: str, key: str, value: Any, kind: str = "ok") -> None:
        """Somebody sent one more record. Its offset was not told."""
        begun = {"process": process, "f": "send", "time": self.operations[at - 1]["time"], "id": f"seeded {value}"}
        answer: Any = [None, value] if kind == "ok" else value
        self.operations[at:at] = [
            {**begun, "type": "invoke", "value": [["send", key, value]]},
            {**begun, "type": kind, "value": [["send", key, answer]]},
        ]

    def append_to_log(self, side: str, key: str, value: Any) -> None:
        """One more record is at the end of a final log."""
        log = self.choose(self.logs(key, side)[-1:])
        log["records"].append([log["end"], value])
        log["end"] += 1


Seed = Callable[[History], None]
