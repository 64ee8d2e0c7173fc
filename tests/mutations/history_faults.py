"""Faults to seed into a history, each with the class that must report it."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from tests.mutations.edits import History, Record, Seed

SOURCE, TARGET = "source", "target"


class Fault(NamedTuple):
    """A way to spoil a history."""

    name: str
    found_as: str
    seed: Seed


def _acknowledged_and_read(history: History) -> tuple[str, object]:
    """A record that was acknowledged and that the target holds, with others behind it."""
    held = {(log["key"], r[1]) for log in history.logs(side=TARGET) for r in log["records"][:-1]}
    _, _, key, value = history.choose([s for s in history.sent("ok") if (s[2], s[3]) in held])
    return key, value


def lose(history: History) -> None:
    """An acknowledged record is not on the target."""
    history.remove(*_acknowledged_and_read(history), TARGET)


def lose_unread(history: History) -> None:
    """The same, and nobody read the logs at the end."""
    key, value = _acknowledged_and_read(history)
    history.without_logs()
    history.remove(key, value)


def acknowledge_only(history: History) -> None:
    """A write is acknowledged that no log has."""
    at, process, key, _ = history.choose(history.sent("ok"))
    history.insert_write(at, process, key, "seeded")


def duplicate_in_log(history: History) -> None:
    """A record is at the end of the target's log once more."""
    key, value = _acknowledged_and_read(history)
    history.append_to_log(TARGET, key, value)


def duplicate_unknown(history: History) -> None:
    """A write with an unknown outcome is there twice."""
    held = {(log["key"], r[1]) for log in history.logs(side=TARGET) for r in log["records"]}
    _, _, key, value = history.choose([s for s in history.sent("unknown") if (s[2], s[3]) in held])
    history.append_to_log(TARGET, key, value)


def two_at_one_offset(history: History) -> None:
    """One reader got two records the other way round."""
    records = history.choose([r for _, _, _, r in history.polls() if len(r) > 1])
    records[0][1], records[1][1] = records[1][1], records[0][1]


def shift_preserved(history: History) -> None:
    """A topic that preserves offsets has its last record one further on the target."""
    log = history.choose([log for log in history.logs(side=TARGET) if log["key"].startswith("kept") and log["records"]])
    source = {record[1] for log in history.logs(log["key"], SOURCE) for record in log["records"]}
    value = [record[1] for record in log["records"] if record[1] in source][-1]
    for records in history.reads(log["key"], TARGET):
        behind = next((at for at, record in enumerate(records) if record[1] == value), len(records))
        _shift(records[behind:])
    log["end"] += 1


def _shift(records: list[Record]) -> None:
    for record in records:
        record[0] += 1


def read_aborted(history: History) -> None:
    """The target's log holds a record whose transaction was aborted."""
    _, _, key, value = history.choose(history.sent("fail"))
    history.append_to_log(TARGET, key, value)


def read_own(history: History) -> None:
    """A transaction reads what it has not committed yet."""
    offsets = {(log["key"], r[1]): r[0] for log in history.logs(side=TARGET) for r in log["records"]}
    at, _, key, value = history.choose([s for s in history.sent("ok") if (s[2], s[3]) in offsets])
    history.operations[at]["value"].append(["poll", {key: [[offsets[key, value], value]]}])


def read_too_early(history: History) -> None:
    """A record is read before anybody sent it."""
    at, _, key, value = history.choose(history.sent("ok")[-20:])
    name = history.operations[at]["process"], history.operations[at].get("id")
    begun = max(i for i, op in history.of("invoke", "send", "txn") if i < at and (op["process"], op.get("id")) == name)
    offset = next(r[0] for records in history.reads(key, TARGET) for r in records if r[1] == value)
    piece = {"side": TARGET, "key": key, "start": 0, "end": 0, "records": [[offset, value]]}
    history.operations.insert(begun, {"type": "ok", "process": "control", "f": "log", "time": 0, "value": piece})


def invent(history: History) -> None:
    """A record is read that nobody sent."""
    _, _, key, records = history.choose(history.polls())
    history.append_to_log(TARGET, key, "nobody's")
    assert records


def leave_out_within(history: History) -> None:
    """A poll leaves out a record in the middle."""
    records = history.choose([r for _, _, _, r in history.polls() if len(r) > 2])
    del records[1]


def turn_round_within(history: History) -> None:
    """A poll gives two records in the wrong order."""
    records = history.choose([r for _, _, _, r in history.polls() if len(r) > 1])
    records[0], records[1] = records[1], records[0]


def leave_out_between(history: History) -> None:
    """A member does not get what follows the records of its last poll."""
    history.choose([records for (_, records) in _following(history) if len(records) > 1]).pop(0)


def again(history: History) -> None:
    """A member gets the last record of its last poll once more."""
    last, records = history.choose(_following(history))
    records.insert(0, list(last[-1]))


def _following(history: History) -> list[tuple[list[Record], list[Record]]]:
    """Pairs of polls of one member and key that follow one another, nothing assigned in between."""
    last: dict[tuple[str, str], list[Record]] = {}
    found = []
    polls: dict[int, list[tuple[str, str, list[Record]]]] = {}
    for at, process, key, records in history.polls():
        polls.setdefault(at, []).append((process, key, records))
    for at, op in enumerate(history.operations):
        if op["f"] == "assign":
            last = {pair: records for pair, records in last.items() if pair[0] != op["process"]}
        for process, key, records in polls.get(at, ()):
            if (process, key) in last:
                found.append((last[process, key], records))
            last[process, key] = records
    return found


def rewind_group(history: History) -> None:
    """The next owner of a partition begins before the group's committed offset."""
    before, records = history.choose(_resumed(history))
    records.insert(0, list(before))


def skip_in_group(history: History) -> None:
    """The next owner of a partition begins behind the group's committed offset."""
    _, records = history.choose([pair for pair in _resumed(history) if len(pair[1]) > 1])
    records.pop(0)


def _resumed(history: History) -> list[tuple[Record, list[Record]]]:
    """First polls of members, with the record that the group had read last on the same side."""
    last: dict[tuple[str, str, str], Record] = {}
    known = set()
    found = []
    for _, process, key, records in history.polls():
        place = history.groups.get(process, ""), key, history.sides[process]
        if (process, key) not in known and place in last:
            found.append((last[place], records))
        known.add((process, key))
        last[place] = records[-1]
    return found


def swap_sends(history: History) -> None:
    """Two records of one producer are in both logs the other way round."""
    held = {(log["key"], r[1]) for log in history.logs(side=TARGET) for r in log["records"]}
    by_producer: dict[tuple[str, str], list[object]] = {}
    for at, process, key, value in history.sent("ok"):
        if (key, value) in held and history.operations[at]["f"] == "send":
            by_producer.setdefault((process, key), []).append(value)
    (_, key), values = history.choose([item for item in by_producer.items() if len(item[1]) > 1])
    at = history.random.randrange(len(values) - 1)
    one, other = values[at : at + 2]
    history.rename(key, {one: other, other: one})


def swap_within_transaction(history: History) -> None:
    """Two records of one transaction are in the logs the other way round."""
    parts = [[p for p in op["value"] if p[0] == "send"] for _, op in history.of("ok", "txn")]
    pairs = [(p[1], p[2][1], q[2][1]) for each in parts for p, q in pairwise(each) if p[1] == q[1]]
    key, one, other = history.choose(pairs)
    history.rename(key, {one: other, other: one})


def never_read(history: History) -> None:
    """A record is acknowledged at the end, and nobody ever reads it."""
    history.without_logs()
    at, process, key, _ = history.sent("ok")[-1]
    history.insert_write(at + 1, process, key, "seeded")


def swap_on_target(history: History) -> None:
    """The mirror turned two records round."""
    both = [(log["key"], a[1], b[1]) for log in history.logs(side=SOURCE) for a, b in pairwise(log["records"])]
    key, one, other = history.choose(both)
    history.rename(key, {one: other, other: one}, TARGET)


def drop_unknown_in_middle(history: History) -> None:
    """The mirror left out a record whose producer does not know its outcome."""
    both = {(log["key"], r[1]) for log in history.logs(side=SOURCE) for r in log["records"][1:-1]}
    _, _, key, value = history.choose([s for s in history.sent("unknown") if (s[2], s[3]) in both])
    history.remove(key, value, TARGET)


def ungate_early(history: History) -> None:
    """A group reads on the target before it was promoted."""
    at, op = history.choose(list(history.of("invoke", "move")))
    group, to = op["value"]["group"], op["value"]["to"]
    done = next(i for i, each in history.of("ok", "move") if i > at and each["value"]["group"] == group)
    moved = [history.operations[at], history.operations[done]]
    first = next(i for i, p, _, _ in history.polls(to) if history.groups.get(p) == group and i > done)
    history.operations[first + 1 : first + 1] = moved
    del history.operations[done], history.operations[at]


def read_on_both(history: History) -> None:
    """A member on the source reads on after its group was promoted."""
    _, op = history.choose(list(history.of("ok", "move")))
    members = {process for process, group in history.groups.items() if group == op["value"]["group"]}
    at, process, _, _ = history.choose([poll for poll in history.polls(SOURCE) if poll[1] in members])
    invoke = max(i for i, each in history.of("invoke", "poll") if i < at and each["process"] == process)
    history.operations += [dict(history.operations[invoke]), dict(history.operations[at])]


def _cut_over_at(history: History) -> tuple[int, int, str]:
    begun, op = history.choose(list(history.of("invoke", "cutover")))
    ended = next(i for i, each in history.of("ok", "cutover") if i > begun)
    return begun, ended, history.choose(op["value"]["keys"])


def write_on_source_late(history: History) -> None:
    """A write that was sent after the cutover went to the source."""
    _, ended, key = _cut_over_at(history)
    history.insert_write(ended + 1, "gateway", key, "seeded", "unknown")
    history.append_to_log(SOURCE, key, "seeded")


def write_on_target_early(history: History) -> None:
    """A write that was answered before the cutover went to the target."""
    begun, _, key = _cut_over_at(history)
    history.insert_write(begun, "gateway", key, "seeded")
    history.append_to_log(TARGET, key, "seeded")


def cutover_before_lag_zero(history: History) -> None:
    """The cutover came while the mirror was two records behind."""
    key = history.choose([log["key"] for log in history.logs(side=SOURCE) if len(log["records"]) > 2])
    for record in history.logs(key, SOURCE)[-1]["records"][-2:]:
        history.remove(key, record[1], TARGET)


FAULTS = (
    Fault("a lost record", "lost-write", lose),
    Fault("a lost record, no final logs", "lost-write", lose_unread),
    Fault("an answer before the commit", "lost-write", acknowledge_only),
    Fault("a record twice", "duplicate", duplicate_in_log),
    Fault("an unknown outcome twice", "duplicate", duplicate_unknown),
    Fault("two records at one offset", "inconsistent-offsets", two_at_one_offset),
    Fault("an offset that is not preserved", "inconsistent-offsets", shift_preserved),
    Fault("an aborted record", "aborted-read", read_aborted),
    Fault("a transaction that reads itself", "precommitted-read", read_own),
    Fault("a record from the future", "precommitted-read", read_too_early),
    Fault("a record of nobody", "never-written", invent),
    Fault("an offset gap within a poll", "int-poll-skip", leave_out_within),
    Fault("a poll out of order", "int-nonmonotonic-poll", turn_round_within),
    Fault("an offset gap between two polls", "poll-skip", leave_out_between),
    Fault("a group that skips", "poll-skip", skip_in_group),
    Fault("a record read again", "nonmonotonic-poll", again),
    Fault("a rewound group", "nonmonotonic-poll", rewind_group),
    Fault("two writes turned round", "nonmonotonic-send", swap_sends),
    Fault("two writes of a transaction turned round", "int-nonmonotonic-send", swap_within_transaction),
    Fault("a record that nobody sees", "unseen", never_read),
    Fault("two records turned round by the mirror", "divergence", swap_on_target),
    Fault("a record left out by the mirror", "divergence", drop_unknown_in_middle),
    Fault("a group ungated early", "gated-read", ungate_early),
    Fault("a group on both clusters", "gated-read", read_on_both),
    Fault("a write to the source after the cutover", "split-write", write_on_source_late),
    Fault("a write to the target before the cutover", "split-write", write_on_target_early),
    Fault("a cutover before lag 0", "split-write", cutover_before_lag_zero),
)
