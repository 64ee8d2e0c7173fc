"""For how long a mirror back is kept: by the file that means the topic, else by the link; and the journal."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.migration.keeps import UndoRetention
from gateway.migration.rules.file import FileError, parsed
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import mirror_record

HOUR_MS = 3_600_000


def file(name: str = "m", topics: tuple[str, ...] = ("orders",), **more: Any) -> dict[str, Any]:
    return {"migration": name, "link": "l", "applications": [{"name": "a", "topics": list(topics)}], **more}


def mirror(topic: str = "orders") -> Any:
    return mirror_record(link="l", source_topic=topic, mirror_topic=topic, mirror_id=1, undo_until_ms=60_000)


@pytest.fixture
async def keeps(plane: Plane) -> UndoRetention:
    await plane.with_link(**{"failback.keep": "1h"})
    return UndoRetention(plane.parts.records, plane.service.migrations)


async def applied(plane: Plane, *files: dict[str, Any]) -> None:
    for one in files:
        await plane.service.migrations.apply(parsed(one), "ann")


async def test_the_file_counts_and_the_link_for_all_others(plane: Plane, keeps: UndoRetention) -> None:
    await applied(plane, file(topics=("o*",), failback_keep="2h"))
    assert keeps.keep_ms(mirror()) == 2 * HOUR_MS
    assert keeps.keep_ms(mirror("payments")) == HOUR_MS
    await applied(plane, file(topics=("o*",), failback_keep=0))
    assert keeps.keep_ms(mirror()) == 0
    await plane.service.migrations.abort("m", "ann")  # its file counts for what it promoted
    await applied(plane, file("n"))
    assert keeps.keep_ms(mirror()) == 24 * HOUR_MS


async def test_what_would_promote_it_again(plane: Plane, keeps: UndoRetention) -> None:
    await applied(plane, file())
    assert keeps.running(mirror()) == ["m"]
    assert keeps.running(mirror("payments")) == []
    await plane.service.migrations.pause("m", "ann")
    assert keeps.running(mirror()) == []


async def test_the_journal_says_until_when_and_that_it_was_over(plane: Plane, keeps: UndoRetention) -> None:
    await applied(plane, file())
    for what in ("OPEN", "OVER"):
        await keeps.told(mirror(), what)
    opened, over = plane.store.migrations["m"].journal[-2:]
    assert (opened.what, opened.application, opened.names) == ("UNDO_OPEN", "a", ("orders",))
    assert opened.detail == "until 1970-01-01T00:01:00+00:00"
    assert over.what == "UNDO_OVER"


@pytest.mark.parametrize("keep", ["soon", "24 hours", "366d", -1, 1.5, True])
def test_a_bad_time_names_the_key_and_what_is_possible(keep: Any) -> None:
    with pytest.raises(FileError, match="failback_keep"):
        parsed(file(failback_keep=keep))
