"""Rehearsals of a migration's promotes: asked for, and by the file's windows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.errors import BadRequest, Conflict
from gateway.migration.rules.file import MigrationFile, as_text, parsed
from tests.support.control.control_plane import Plane
from tests.support.waiting import wait_until_async

ALWAYS = [{"from": "00:00", "to": "00:00"}]


def file(**more: object) -> MigrationFile:
    one = {"name": "a", "topics": ["orders"], "until": "mirrored", **more}
    other = {"name": "b", "topics": ["payments"], "until": "mirrored"}
    return parsed({"migration": "m", "link": "l", "applications": [one, other]})


async def mirrored(plane: Plane, **more: object) -> None:
    await plane.with_mirror("orders")
    await plane.with_mirror("payments")
    await plane.service.migrations.apply(file(**more), "ann")


def journal(plane: Plane) -> list[tuple[str, str, str, int, str]]:
    entries = plane.store.migrations["m"].journal
    return [(one.what, one.application, one.by, one.pause_ms, one.detail) for one in entries if "REHEARS" in one.what]


async def test_each_application_after_the_other(plane: Plane) -> None:
    await mirrored(plane)
    done = await plane.service.migration_rehearsals.rehearse("m", "", "ann")
    assert [one.application for one in done] == ["a", "b"]
    assert plane.promoters.rehearsed == [("l", ("orders",), 0.0), ("l", ("payments",), 0.0)]
    detail = "longest stall 40 ms: app at 10.0.0.7"
    assert journal(plane) == [("REHEARSED", name, "ann", 50, detail) for name in ("a", "b")]


async def test_one_that_is_refused_says_why(plane: Plane) -> None:
    await mirrored(plane)
    plane.promoters.refusal = Conflict("it is being promoted already")
    (one,) = await plane.service.migration_rehearsals.rehearse("m", "a", "ann")
    assert (one.refused, one.rehearsal) == ("it is being promoted already", None)
    assert journal(plane) == [("REHEARSAL_GIVEN_UP", "a", "ann", -1, "it is being promoted already")]
    with pytest.raises(BadRequest, match="no application 'z'"):
        await plane.service.migration_rehearsals.rehearse("m", "z", "ann")


async def test_a_window_has_one_rehearsal_whoever_leads(plane: Plane) -> None:
    await mirrored(plane, rehearsals=ALWAYS, until="promoted", groups=["away"], windows=[], after=["b"])
    await wait_until_async(lambda: len(journal(plane)) == 1, 30, what="a rehearsal")
    assert journal(plane)[0][:3] == ("REHEARSED", "a", "schedule")
    assert plane.store.migrations["m"].rehearsed.keys() == {"a"}
    await plane.service.migration_rehearsals.run_due()
    assert len(plane.promoters.rehearsed) == 1


async def test_a_rehearsal_that_cannot_be_noted_is_not_begun_again(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would pause the clients' writes, at every look of an hour's window."""
    await mirrored(plane, until="promoted", groups=["away"], after=["b"])

    async def refused(*_: object, **__: object) -> None:
        raise Conflict("is being changed by others")

    monkeypatch.setattr(plane.service.migrations, "change", refused)
    record = plane.store.migrations["m"]
    await plane.by_hand(replace(record, file=as_text(file(rehearsals=ALWAYS, until="promoted", after=["b"]))))
    for _ in range(3):
        await plane.service.migration_rehearsals.run_due()
    assert len(plane.promoters.rehearsed) == 1


def both_by_window() -> MigrationFile:
    """Whose rehearsals are due at once; nothing is promoted, since a group is away."""
    more = {"until": "promoted", "groups": ["away"], "rehearsals": [{"from": "00:00", "to": "00:30"}]}
    one, other = {"name": "a", "topics": ["orders"], **more}, {"name": "b", "topics": ["payments"], **more}
    return parsed({"migration": "m", "link": "l", "applications": [one, {**other, "groups": ["far"]}]})


@pytest.mark.parametrize("then", ["pause", "abort", "the window closes"])
async def test_what_happens_in_a_rehearsal_counts_for_the_next_one(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """Its write pause would come behind the command that stops the migration, or outside of its window."""
    await mirrored(plane, until="promoted", groups=["away"], after=["b"])
    rehearsals, migrations = plane.service.migration_rehearsals, plane.service.migrations
    rehearse = rehearsals._rehearsals.rehearse

    async def meanwhile(*args: object) -> object:
        done = await rehearse(*args)  # type: ignore[arg-type]
        if then == "the window closes":
            plane.now_ms = 3_600_000
        else:
            await getattr(migrations, then)("m", "ann")
        return done

    monkeypatch.setattr(rehearsals._rehearsals, "rehearse", meanwhile)
    record = plane.store.migrations["m"]
    await plane.by_hand(replace(record, file=as_text(both_by_window())))
    await rehearsals.run_due()
    assert [topics for _, topics, _ in plane.promoters.rehearsed] == [("orders",)]
