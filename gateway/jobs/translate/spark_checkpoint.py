"""The offset log of a Spark Structured Streaming checkpoint: read, translated, written into a new folder.

A checkpoint folder has offsets/N (what batch N was to read up to: a version line, a JSON line of the batch, then one
line per source), commits/N (batch N is done), sources/ (where the first batch began), state/ and metadata. Only
offsets of Kafka are translated: {"topic": {"0": 123}}. State and everything else are copied as they are. The old folder
is only read; a new one is made whole beside its final name and then renamed, so that half of one is never taken.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from typing import Final

from gateway.kafka.topic_partition import TopicPartition

IDS: Final = "@ids"
"""Beside the topics in the offsets of this project's own sources (`jobs.source.stream`)."""

SourceOffsets = dict[TopicPartition, int]

VERSION: Final = "v1"
_INITIAL: Final = "sources"
_LOG: Final = "offsets"
_COMMITS: Final = "commits"
QUIET_S: Final = 10.0
"""A checkpoint that was not written for so long is taken for one without a running query."""


class BadCheckpoint(ValueError):
    """Not a checkpoint folder, or one that this version cannot rewrite. One line, naming the file."""


@dataclass(frozen=True, slots=True)
class OffsetsFile:
    """One file with offsets, as lines. `kafka` maps the numbers (from 0) of lines with offsets of Kafka to the topics
    in them; other lines stay as they are. The offsets themselves are not kept: there may be many (`parse_offsets`).

    `lead`: bytes before the text (Spark writes a zero byte into sources/N/0).
    """

    path: str
    lines: tuple[str, ...]
    kafka: Mapping[int, frozenset[str]]
    lead: bytes = b""

    def with_lines(self, translated: Mapping[int, str]) -> OffsetsFile:
        """With other lines in the place of all those with offsets of Kafka (`render_offsets`), by number."""
        lines = [translated[number] if number in self.kafka else line for number, line in enumerate(self.lines)]
        return replace(self, lines=tuple(lines))

    def to_bytes(self) -> bytes:
        """The file's content."""
        return self.lead + "\n".join(self.lines).encode()


def parse_offsets(text: str) -> SourceOffsets | None:
    """A source's line as offsets of Kafka; None when it is of another kind of source."""
    try:
        value = json.loads(text)
        if not isinstance(value, dict) or not value:
            return None
        value.pop(IDS, None)  # of the topics on the old cluster (`topic_ids`); a query notes the new one's by itself
        return {(topic, int(index)): int(at) for topic, parts in value.items() for index, at in parts.items()}
    except (ValueError, AttributeError, TypeError):
        return None


def topic_ids(text: str) -> dict[str, str]:
    """The ids that a line says its topics had, as hex digits; this project's own sources note them."""
    value = json.loads(text)
    return dict(value.get(IDS, {})) if parse_offsets(text) else {}


def require_same_topics(files: Collection[OffsetsFile], begins: Collection[str], here: Mapping[str, str]) -> None:
    """Raises BadCheckpoint when a topic was deleted and created anew: the offsets in the checkpoint are other records'.

    Args:
        begins: the files that the query goes on from (`goes_on_from`); older ones tell of what was.
        here: the ids that the topics have on the source; none of brokers without ids.
    """
    for file in files:
        for number in file.kafka if file.path in begins else ():
            for topic, known in topic_ids(file.lines[number]).items():
                if here.get(topic, known) != known:
                    raise BadCheckpoint(
                        f"{file.path}: topic {topic} had the id {known}, and on the source it has {here[topic]} now: "
                        "it was deleted and created anew, so these offsets are other records'; begin the query with a "
                        "new checkpoint"
                    )


def render_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets as Spark's Kafka source writes them."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(topics, separators=(",", ":"))


def read_checkpoint(folder: Path) -> list[OffsetsFile]:
    """Every file of the folder with offsets in it, in order of path.

    Raises:
        BadCheckpoint: it is no checkpoint folder, or a file is of a version that is not known.
    """
    if "://" in str(folder) or re.match(r"^[a-z0-9+.-]{2,}:/", str(folder)):
        raise BadCheckpoint(f"{folder}: only folders of this machine can be read; copy it here first, and back after")
    if not (folder / _LOG).is_dir():
        raise BadCheckpoint(f"{folder}: it has no folder {_LOG}, so it is no checkpoint of Structured Streaming")
    files = [_read(folder, path, header=2) for path in _numbered(folder / _LOG)]
    if not files:
        raise BadCheckpoint(f"{folder}/{_LOG}: there are no offsets in it")
    for source in sorted((folder / _INITIAL).glob("*")):
        files.extend(_read(folder, path, header=1) for path in _numbered(source) if _is_initial(path))
    if not any(file.kafka for file in files):
        raise BadCheckpoint(f"{folder}: no source in it is Kafka")
    return files


def of_topics(files: list[OffsetsFile], topics: Collection[str]) -> list[OffsetsFile]:
    """The files with only those sources to be translated that read nothing but these topics; the others stay.

    Raises:
        BadCheckpoint: a source reads topics of both kinds; or none reads these.
    """
    found = []
    for file in files:
        lines = {}
        for number, offsets in file.kafka.items():
            here = {topic in topics for topic in offsets}
            if here == {True, False}:
                missing = min(offsets - frozenset(topics))
                raise BadCheckpoint(f"{file.path}: the source cluster has no topic {missing}, but others of its line")
            if here == {True}:
                lines[number] = offsets
        found.append(replace(file, kafka=lines))
    if not any(file.kafka for file in found):
        raise BadCheckpoint("no source in the checkpoint reads topics of the source cluster")
    return found


def goes_on_from(folder: Path, files: Collection[OffsetsFile]) -> tuple[str, ...]:
    """The files whose offsets a query that is started on the folder reads from, or up to, first.

    A batch that is not committed is run again (`StreamExecution`): from the offsets of the batch before, of the first
    batch from sources/N/0, up to its own.
    """
    batches = sorted(int(Path(file.path).name) for file in files if file.path.startswith(f"{_LOG}/"))
    last = batches.pop()
    if _is_committed(folder, last):
        return (f"{_LOG}/{last}",)
    if batches:
        return (f"{_LOG}/{batches[-1]}", f"{_LOG}/{last}")
    return (*(file.path for file in files if file.path.startswith(f"{_INITIAL}/")), f"{_LOG}/{last}")


def _is_committed(folder: Path, batch: int) -> bool:
    return (folder / _COMMITS / str(batch)).exists()


def require_no_writer(
    folder: Path, quiet_s: float = QUIET_S, *, now_s: float | None = None, stopped: bool = False
) -> None:
    """Raises BadCheckpoint when a query may run on the folder: its last batch is not committed, or has just been.

    Spark keeps no lock in it, so this is what can be seen. A query between two batches, which waits for its trigger or
    for records, is not.

    Args:
        now_s: seconds since the epoch; the time of day by default.
        stopped: somebody says that the query is, so that a last batch without a commit is one that was cut off.
    """
    numbers = [int(path.name) for path in _numbered(folder / _LOG)]
    if numbers and not stopped and not _is_committed(folder, max(numbers)):
        raise BadCheckpoint(
            f"{folder}: its last batch, {max(numbers)}, is not committed, so a query may be running it; stop the "
            "query, and if it is certainly stopped say so with --query-stopped: Spark will run that batch again"
        )
    files = [path for name in (_LOG, _COMMITS) if (folder / name).is_dir() for path in (folder / name).iterdir()]
    newest = max((path.stat().st_mtime for path in files), default=0.0)
    age_s = (time.time() if now_s is None else now_s) - newest
    if age_s < quiet_s:
        raise BadCheckpoint(
            f"{folder}: it was written {max(0.0, age_s):.0f} s ago, so a query may run on it; stop the query, and try "
            f"again {quiet_s:g} s later"
        )


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of the last write of each file, by its path in the folder."""
    found = {}
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # renamed or deleted meanwhile: it is missing then
            seen = path.stat()
            if S_ISREG(seen.st_mode):
                found[str(path.relative_to(folder))] = (seen.st_size, seen.st_mtime_ns)
    return found


def require_unwritten(folder: Path, before: Mapping[str, tuple[int, int]]) -> None:
    """Raises BadCheckpoint when the folder has been written since it was read: it may be a copy of two moments."""
    now = state_of(folder)
    changed = sorted(path for path in now.keys() | before.keys() if now.get(path) != before.get(path))
    if changed:
        raise BadCheckpoint(
            f"{folder}: {changed[0]} was written, or deleted, while the folder was read, so a query runs on it; "
            "nothing is kept of the copy; stop the query and run this again"
        )


def require_new(old: Path, new: Path) -> Path:
    """The folder beside `new` in which it is made. Raises BadCheckpoint when there is one of them."""
    part = new.with_name(new.name + ".part")
    if new.exists():
        raise BadCheckpoint(f"{new}: it exists; the rewritten checkpoint needs a new folder")
    if part.exists():
        raise BadCheckpoint(
            f"{part}: it exists, so another run is writing it, or one that was killed has left it; remove it when no "
            "other one runs, or take another --new-checkpoint"
        )
    if new.resolve().is_relative_to(old.resolve()):
        raise BadCheckpoint(f"{new}: it lies in {old}, to which nothing is written; take a folder beside it")
    return part


def write_checkpoint(old: Path, new: Path, files: list[OffsetsFile], check: Callable[[], None] = lambda: None) -> None:
    """Copy `old` to `new` with these files in the place of its own.

    Args:
        check: called when all is copied; what it raises goes on, and nothing is left of the copy.

    Raises:
        BadCheckpoint: see `require_new`.
    """
    part = require_new(old, new)
    part.mkdir()  # fails when another run has it: what is removed below is ours
    try:
        _copy(old, part, files)
        check()
        part.rename(new)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _copy(old: Path, part: Path, files: list[OffsetsFile]) -> None:
    changed = {file.path: file for file in files}
    # Hadoop's checksum of a file that is rewritten would no longer be right, and the file would not be read.
    stale = {str(Path(path).with_name(f".{Path(path).name}.crc")) for path in changed}

    def skip(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if str((Path(folder) / name).relative_to(old)) in stale]

    try:
        shutil.copytree(old, part, ignore=skip, dirs_exist_ok=True)
    except shutil.Error as exc:  # of each file that could not be copied: where from, where to, why
        path, _, why = exc.args[0][0]
        raise BadCheckpoint(f"{path}: it cannot be copied: {why}; if it is gone, a query runs on the folder") from exc
    for path, file in changed.items():
        (part / path).write_bytes(file.to_bytes())


def _numbered(folder: Path) -> Iterator[Path]:
    found = [path for path in folder.glob("*") if path.name.isdigit()]
    yield from sorted(found, key=lambda path: int(path.name))


def _is_initial(path: Path) -> bool:
    return path.name == "0"


def _read(folder: Path, path: Path, *, header: int) -> OffsetsFile:
    """`header`: how many lines come before the first source's."""
    content = path.read_bytes()
    lead = content[:1] if content[:1] == b"\x00" else b""
    lines = content[len(lead) :].decode().split("\n")
    name = str(path.relative_to(folder))
    if lines[0] != VERSION:
        raise BadCheckpoint(f"{name}: version {lines[0][:20]!r} is not known; known is {VERSION}")
    found = {number: _topics(line) for number, line in enumerate(lines) if number >= header}
    return OffsetsFile(name, tuple(lines), {number: topics for number, topics in found.items() if topics}, lead)


def _topics(line: str) -> frozenset[str]:
    return frozenset(topic for topic, _ in parse_offsets(line) or ())
