"""What is done to a link and to single mirrors, beside the migrations: a plan for it, and a conductor that does it.

Runs of a seed from `DAILY_FROM` on have it: link configs that change nothing for records, a link that is paused and
resumed, a mirror that is deleted with its topic and mirrored again, one that the link creates by itself, mirrors that
FAIL and are repaired. Topics of their own, so that the migrations go on as they are; each is promoted in the end, so
that its whole history is judged. Drawn with dice of their own: plans of the seeds before stay as they were.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.chaos.clients.producers import LibrdkafkaProducer
from tests.chaos.conductor import LINK, MIGRATIONS, SOURCE, TARGET, Conductor
from tests.chaos.plan import Act, Plan, with_more

DAILY_FROM: Final = 1_000
DAILY: Final[Mapping[str, str]] = {
    "alter_link": "throttle",
    "pause_link": LINK,
    "unmirror": "gone",
    "auto_create": "auto",
    "mend_written": "written",
    "mend_deleted": "deleted",
}
"""Kind of an act -> what it is done to, or how its topic's name begins."""
_ON_LINK: Final = ("alter_link", "pause_link")
_FILTERS: Final = (
    {"name": "*", "patternType": "LITERAL", "filterType": "INCLUDE"},
    {"name": "no-such-group", "patternType": "LITERAL", "filterType": "EXCLUDE"},
)
_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    "throttle": {"throttle.bytes.per.second": "50000000"},
    "filters": {"consumer.offset.group.filters": json.dumps({"groupFilters": _FILTERS})},
    "cadence": {"metadata.max.age.ms": "2000", "topic.config.sync.ms": "2000"},
}
"""Configs that change nothing for records. They are set, and set back to their defaults."""
_PAUSED_S: Final = 2.0
_AT_LEAST: Final = 20
"""Records of a topic before anything is done to it."""


def with_daily(plan: Plan) -> Plan:
    """The plan with one act of each kind in each cycle, at random places; as it was for seeds before DAILY_FROM."""
    if plan.seed < DAILY_FROM:
        return plan
    dice = random.Random(f"daily/{plan.seed}/{plan.duration_s:g}/{plan.gateways}")

    def acts_of(number: str) -> Iterator[Act]:
        for kind, what in DAILY.items():
            named = dice.choice(tuple(_CONFIGS)) if kind == "alter_link" else what
            yield Act(kind, named if kind in _ON_LINK else f"{what}-{number}", round(dice.uniform(0.5, 4.0), 2))

    return with_more(plan, dice, acts_of)


class DailyConductor(Conductor):
    """One that knows these acts, too. `paused`: when the link was, as faults are told of: nothing was mirrored then."""

    worth: Mapping[str, int] = {**MIGRATIONS, "alter_link": 0, "pause_link": 0} | dict.fromkeys(
        ("unmirror", "auto_create", "mend_written", "mend_deleted"), 1
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.paused: list[dict[str, Any]] = []

    # -- the link --------------------------------------------------------------------------------------------

    def _alter_link(self, act: Act) -> None:
        self._alter(_CONFIGS[act.what])
        self._alter(dict.fromkeys(_CONFIGS[act.what]))

    def _pause_link(self, act: Act) -> None:
        began = time.monotonic()
        self._granted("POST", f"/v3/links/{LINK}:pause")
        self._over.wait(_PAUSED_S)
        self._granted("POST", f"/v3/links/{LINK}:resume")
        times = {"began_s": began - self._began, "ended_s": time.monotonic() - self._began}
        self.paused.append({"kind": "link-pause", **times})

    def _alter(self, configs: Mapping[str, str | None]) -> None:
        """None: back to the default."""
        data = [
            {"name": name, "operation": "DELETE"} if value is None else {"name": name, "value": value}
            for name, value in configs.items()
        ]
        self._granted("PUT", f"/v3/links/{LINK}/configs:alter", {"data": data})

    # -- mirrors ---------------------------------------------------------------------------------------------

    def _unmirror(self, act: Act) -> None:
        """Groups that wait at their gates do not read it; `force` is for a source that does not say so now."""
        producer = self._written(act.what)
        self._mirror(act.what)
        path = f"/v3/links/{LINK}/mirrors/{act.what}"
        self._granted("DELETE", f"{path}?delete_topic=true&force=true", gone=True)
        self._mirror(act.what)
        self._to_the_target(act, producer)

    def _auto_create(self, act: Act) -> None:
        one = {"name": act.what, "patternType": "LITERAL", "filterType": "INCLUDE"}
        configs = {
            "auto.create.mirror.topics.filters": json.dumps({"topicFilters": [one]}),
            "auto.create.mirror.topics.enable": "true",
            "metadata.max.age.ms": "1000",
        }
        self._alter(configs)
        producer = self._written(act.what)
        path = f"/v3/links/{LINK}/candidates"
        self._reach(lambda: self._mirrors((act.what,)) == {("ACTIVE", "FORWARD")}, lambda: None, path)
        self._alter(dict.fromkeys(configs))
        self._to_the_target(act, producer)

    def _mend_written(self, act: Act) -> None:
        """Somebody writes to the copy: at the next append the mirror finds that."""
        producer = self._mirrored(act.what)
        self._lab.target.write_by_hand(act.what)
        self._mend(act.what)
        self._to_the_target(act, producer)

    def _mend_deleted(self, act: Act) -> None:
        """Somebody deletes the copy. Clients of the gateways do not find the topic any more until it is there again."""
        producer = self._mirrored(act.what)
        producer.stop()
        self._lab.target.delete_topic(act.what)
        self._mend(act.what)
        producer.start(self._lab.gateway_bootstrap, TARGET)
        self._to_the_target(act, producer)

    def _mend(self, topic: str) -> None:
        path = f"/v3/links/{LINK}/mirrors/{topic}"
        self._reach(lambda: self._states((topic,)) == ["FAILED"], lambda: None, path)

        def ask() -> None:
            if self._states((topic,)) == ["FAILED"]:
                self._ask("POST", f"{path}:recreate", None)

        self._reach(lambda: self._is_running(topic), ask, path)

    # -- parts -----------------------------------------------------------------------------------------------

    def _written(self, topic: str) -> LibrdkafkaProducer:
        """A topic on the source that somebody writes."""
        self._lab.source.create_topic(topic, 1)
        self.topics[topic] = 1
        producer = self._cast.extra(topic)
        producer.start(self._lab.source.bootstrap, SOURCE)
        return producer

    def _mirrored(self, topic: str) -> LibrdkafkaProducer:
        """The same, mirrored, and written by way of the gateways."""
        producer = self._written(topic)
        self._mirror(topic)
        producer.stop()
        producer.start(self._lab.gateway_bootstrap, TARGET)
        self._reach(lambda: self._source_end(topic) > _AT_LEAST, lambda: None, f"/v3/links/{LINK}/mirrors/{topic}")
        return producer

    def _to_the_target(self, act: Act, producer: LibrdkafkaProducer) -> None:
        """It is promoted, and nobody writes it any more."""
        if producer.side == SOURCE:
            producer.stop()
            producer.start(self._lab.gateway_bootstrap, TARGET)
        self._cut_over((act.what,), TARGET, "STOPPED", "FORWARD", act)
        producer.stop()

    def _is_running(self, topic: str) -> bool:
        """It is mirrored again, and not about to be created. A repaired mirror that FAILs again is no stuck step yet:
        it is asked for anew."""
        code, answer = self._lab.operator.ask("GET", f"/v3/links/{LINK}/mirrors/{topic}")
        if code != 200 or answer["mirror_status"] != "ACTIVE" or not answer["mirror_lags"]:
            return False
        return all(one["phase"] == "copying" for one in answer["mirror_lags"])

    def _granted(self, method: str, path: str, body: Any = None, *, gone: bool = False) -> None:
        """Ask until somebody says yes. `gone`: or that there is no such thing, once the question was put before."""
        asked: list[int] = []

        def ask() -> None:
            self._ask(method, path, body)
            asked.append(self._said[0])

        def is_granted() -> bool:
            return bool(asked) and (200 <= asked[-1] < 300 or (gone and len(asked) > 1 and asked[-1] == 404))

        self._reach(is_granted, ask, f"/v3/links/{LINK}")
