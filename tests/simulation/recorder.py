"""What clients do, kept in memory as a history for `tests.checker` (its form: tests/checker/FORMAT.md).

Times are virtual. What is known at the end only (which topics preserve offsets, what was sent again under a new epoch,
what the logs hold) is put into the history when it is asked for: `history`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

SOURCE: Final = "source"
TARGET: Final = "target"
Op = dict[str, Any]


class Recorder:
    """Args:
        clock: virtual seconds.
        names: source topic -> mirror topic, where they differ: keys are mirror topics' everywhere.

    Attributes:
        ops: in the order of the calls.
        resent: key -> records that a client's library sent again under a new epoch.
        weak: (process, id) of sends that were acknowledged with acks=1: a lost leader may lose them.
    """

    def __init__(self, clock: Any, names: Mapping[str, str] | None = None) -> None:
        self._clock = clock
        self._names = dict(names or {})
        self.ops: list[Op] = []
        self.resent: dict[str, set[str]] = {}
        self.weak: set[tuple[str, int]] = set()
        self.sides: dict[str, str] = {}

    def key(self, side: str, topic: str, partition: int) -> str:
        """A partition as the history names it."""
        return f"{self._names.get(topic, topic) if side == SOURCE else topic}/{partition}"

    def write(self, kind: str, process: str, f: str, value: Any, number: int | None = None) -> None:
        """One line."""
        op: Op = {"type": kind, "process": process, "f": f, "time": self.now_ns(), "value": value}
        if number is not None:
            op["id"] = number
        self.ops.append(op)

    def opened(self, process: str, side: str, **more: Any) -> None:
        """A client says who it is."""
        self.sides[process] = side
        self.write("ok", process, "open", {"side": side, **more})

    def fault(self, what: str) -> None:
        """Something was broken."""
        self.write("invoke", "nemesis", "fault", what)

    def cutover(self, kind: str, keys: Sequence[str], to: str, process: str = "control") -> None:
        """`invoke`, `ok`, `fail` or `unknown`: the partitions are written on that side from now on."""
        self.write(kind, process, "cutover", {"keys": list(keys), "to": to})

    def move(self, kind: str, group: str, to: str, process: str = "control") -> None:
        """The same of a group."""
        self.write(kind, process, "move", {"group": group, "to": to})

    def changed(self, f: str, value: Any, since: int, at: float, process: str) -> int:
        """A cutover or move that was not commanded but seen: not yet `at` that time, with `since` operations, but now.

        Returns:
            How many operations there are now.
        """
        begun = {"type": "invoke", "process": process, "f": f, "time": int(at * 1e9), "value": value}
        self.ops.insert(since, begun)
        self.write("ok", process, f, value)
        return len(self.ops)

    def told(self, group: str, offsets: Mapping[str, int], side: str) -> None:
        """Offsets that were committed for a group by somebody who is not of it, with no regard to its own ones."""
        process = f"told-{group}-{len(self.ops)}"
        self.opened(process, side, group=group)
        self.write("invoke", process, "commit", dict(offsets))
        self.write("ok", process, "commit", dict(offsets))

    def sent_again(self, key: str, records: Iterable[str]) -> None:
        """Under a new epoch, with doubt whether they are there already."""
        self.resent.setdefault(key, set()).update(records)

    def under_way(self, key: str, since: float) -> list[str]:
        """Records of sends to a partition that were not answered by then."""
        open_sends: dict[tuple[str, Any], list[str]] = {}
        for op in self.ops:
            if op["f"] not in ("send", "txn"):
                continue
            number = op["process"], op.get("id")
            if op["type"] == "invoke":
                open_sends[number] = [part[2] for part in op["value"] if part[0] == "send" and part[1] == key]
            elif op["time"] / 1e9 < since:
                open_sends.pop(number, None)
        return [text for texts in open_sends.values() for text in texts]

    def now_ns(self) -> int:
        """Of the virtual clock."""
        return int(self._clock() * 1e9)

    def operations(
        self,
        topics: Mapping[str, Mapping[str, bool]],
        logs: Iterable[Op] = (),
        *,
        home: str = SOURCE,
        groups: Mapping[str, str] | None = None,
        lossy: bool = False,
        at_target: Sequence[str] = (),
    ) -> Iterator[Op]:
        """The whole history.

        Args:
            topics: what `setup` says of each: `preserve`, `compacted`.
            logs: the final `log` operations.
            groups: group -> the side it reads on at the start, where that is not `home`.
            lossy: acknowledged records may be lost with their leader where acks was 1: their outcome is not known.
            at_target: partitions that are written on the target from the start.
        """
        said = {name: {"side": side} for name, side in (groups or {}).items()}
        yield _op("setup", {"home": home, "topics": {k: dict(v) for k, v in topics.items()}, "groups": said})
        yield _op("resent", {key: sorted(values) for key, values in sorted(self.resent.items())})
        if at_target:
            cutover = _op("cutover", {"keys": list(at_target), "to": TARGET})
            yield from ({**cutover, "type": "invoke"}, cutover)
        for op in self.ops:
            if lossy and op["f"] == "send" and op["type"] == "ok" and (op["process"], op.get("id")) in self.weak:
                yield {**op, "type": "unknown"}
            else:
                yield op
        yield from logs

    def lines(self, operations: Iterable[Op]) -> Iterator[str]:
        """As `tests.checker` reads them."""
        return map(json.dumps, operations)


def final_log(side: str, key: str, start: int, end: int, records: Iterable[tuple[int, str]]) -> Op:
    """What a log held at the end, read as committed data."""
    value = {"side": side, "key": key, "start": start, "end": end, "records": [list(each) for each in records]}
    return _op("log", value)


def _op(f: str, value: Any) -> Op:
    return {"type": "ok", "process": "control", "f": f, "time": 0, "value": value}


__all__ = ["SOURCE", "TARGET", "Op", "Recorder", "final_log"]
