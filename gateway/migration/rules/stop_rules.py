"""Rules by which a migration stops itself: what was promoted is held against the bounds of its file. Pure.

A rule looks at what is promoted already, so it cannot fire before something is. One that fires stops every further
step; what is promoted stays so, and an undo is for people to ask for. Who goes on accepts the value that has stopped
it: then the rule fires again when that is exceeded. Of a share there is nothing to accept: who goes on has answers
counted anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from gateway.migration.rules.client_errors import WINDOW_S, ClientErrors
from gateway.migration.rules.file import MigrationFile
from gateway.migration.rules.resolve import MigrationPlan
from gateway.migration.rules.world import World

CLIENT_ERRORS: Final = "client_errors_percent"


class Fired(NamedTuple):
    """A rule that fired. `about`: the topic or group that is worst. `detail`: what was seen of it."""

    rule: str
    value: float
    bound: float
    about: str
    detail: str = ""

    def __str__(self) -> str:
        """In one line."""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.rule} is {_told(self.value)}, {_told(self.bound)} at most ('{self.about}'{detail})"

    @property
    def accepted(self) -> Mapping[str, int]:
        """What who goes on accepts: by rule, the value."""
        return {} if self.rule == CLIENT_ERRORS else {self.rule: int(self.value)}


def _told(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")


def fired(file: MigrationFile, plan: MigrationPlan, world: World, accepted: Mapping[str, int]) -> Fired | None:
    """The first rule that fires now, if there is one. `accepted`: by rule, the value with which somebody went on."""
    late, lag = _late(plan, world), _lag(plan, world)
    for rule, bound, measured in (
        ("late_writes", file.stop_when.late_writes, late),
        ("target_lag", file.stop_when.target_lag, lag),
    ):
        if bound is not None and measured is not None and measured[0] > max(bound, accepted.get(rule, bound)):
            return Fired(rule, measured[0], bound, measured[1])
    return _client_errors(file.stop_when.client_errors_percent, world.client_errors)


def unmeasured(file: MigrationFile, plan: MigrationPlan, world: World) -> str:
    """Why nobody can say whether a rule fires, so that nothing more is promoted; '' when all can be told.

    Whoever leads since a moment ago has measured nothing yet; a gateway that does not answer may have all the clients
    that fail. Of `target_lag` nothing is awaited: a group that never
    commits has none.
    """
    promoted = _promoted(plan, world)
    judged = promoted or _of_groups_alone(plan, world)
    untold = [name for name in promoted if not world.mirrors[name].late_known]
    if file.stop_when.late_writes is not None and untold:
        return f"stop_when.late_writes is not measured yet ('{untold[0]}')"
    if file.stop_when.client_errors_percent is None or not judged:
        return ""
    if world.client_errors is None:
        return "stop_when.client_errors_percent is not measured yet: the gateways are being asked"
    if unheard := world.client_errors.unheard:
        return f"stop_when.client_errors_percent is not measured: gateway '{unheard[0]}' does not tell what it has seen"
    return ""


def _client_errors(bound: float | None, seen: ClientErrors | None) -> Fired | None:
    """The highest share of errors; nothing fires while too few answers were looked at."""
    worst = None if bound is None or seen is None else seen.worst
    if bound is None or worst is None or worst.percent <= bound:
        return None
    count = worst.seen
    mostly = f", mostly {count.errors[0]}" if count.errors else ""
    detail = f"{count.failures:,} of {count.samples:,} answers looked at in {WINDOW_S:.0f} s{mostly}"
    return Fired(CLIENT_ERRORS, worst.percent, bound, worst.name.name, detail)


def _late(plan: MigrationPlan, world: World) -> tuple[int, str] | None:
    """Records that came to the source behind cutovers, in all, and the topic that has most of them."""
    found = [(world.mirrors[name].late, name) for name in _promoted(plan, world)]
    return (sum(late for late, _ in found), max(found)[1]) if found else None


def _lag(plan: MigrationPlan, world: World) -> tuple[int, str] | None:
    """The group that is most behind on the target; None while none is known."""
    promoted = set(_promoted(plan, world))
    groups = {name for one in plan.applications if promoted & set(one.topics) for name in one.groups}
    groups.update(_of_groups_alone(plan, world))
    found = [
        (lag, name) for name in groups if name in world.groups and (lag := world.groups[name].target_lag) is not None
    ]
    return max(found, default=None)


def _of_groups_alone(plan: MigrationPlan, world: World) -> list[str]:
    """Promoted groups of applications without a topic: their promote is all that is promoted of these."""
    return [
        name
        for one in plan.applications
        if not one.topics
        for name in one.groups
        if (group := world.groups.get(name)) is not None and group.is_promoted
    ]


def _promoted(plan: MigrationPlan, world: World) -> list[str]:
    return [
        name
        for one in plan.applications
        for name in one.topics
        if (mirror := world.mirrors.get(name)) is not None and mirror.is_promoted
    ]
