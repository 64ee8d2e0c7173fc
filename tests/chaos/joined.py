"""Topologies of more than one link, beside the migrations: a plan for them, and a conductor that builds them.

Runs of a seed from `JOINED_FROM` on have a third cluster with a gateway before it, the far one. In each cycle one
topology of each kind is built from topics of its own: two sources of one target, told apart by a prefix; a chain, whose
end is refused until its beginning is promoted; two targets of one source; a link the other way. All are promoted while
the faults of the run go on, and while the far gateway is killed or restarted in the midst of it. Their producers have
a history of their own, which `ways.py` judges with the logs of all three clusters. Drawn with dice of their own: plans
of the seeds before stay as they were.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from gateway.devcluster import DevCluster
from tests.chaos.cast import EXTRA_RATE, Cast
from tests.chaos.clients.producers import LibrdkafkaProducer
from tests.chaos.conductor import LINK, SOURCE, TARGET, Stuck
from tests.chaos.daily import DailyConductor
from tests.chaos.gateways import GatewayNode, Operator
from tests.chaos.lab import Lab
from tests.chaos.plan import Act, Aim, Plan, with_more
from tests.chaos.ways import THIRD, Way
from tests.support.brokers.logs import create_topic
from tests.support.clients.recorder import Recorder

JOINED_FROM: Final = 100_000
JOINED: Final = {"aggregate": "joined", "chain": "chained", "fan_out": "fanned", "both_ways": "back"}
"""Kind of an act -> how its topic's name begins."""
PREFIX: Final = "third."
NOT_PROMOTED_YET: Final = "promote it there first"
"""What the end of a chain is refused with."""
_AIMS: Final = ("kill", "restart", "")
_AT_LEAST: Final = 20
"""Records of a topic before anything is done to it, and between two steps."""


def with_joined(plan: Plan) -> Plan:
    """The plan with one act of each kind in each cycle, at random places; as it was for seeds before JOINED_FROM."""
    if plan.seed < JOINED_FROM:
        return plan
    dice = random.Random(f"joined/{plan.seed}/{plan.duration_s:g}/{plan.gateways}")

    def acts_of(number: str) -> Iterator[Act]:
        for kind, name in JOINED.items():
            struck = dice.choice(_AIMS)
            pause_s = round(dice.uniform(0.5, 2.0), 2)
            aim = Aim(struck, round(dice.uniform(0.0, 0.5), 3)) if struck else None
            yield Act(kind, f"{name}-{number}", pause_s, aim=aim)

    return with_more(plan, dice, acts_of)


@dataclass(frozen=True, slots=True)
class Site:
    """A link at the gateways before one cluster."""

    operator: Operator
    link: str

    @property
    def path(self) -> str:
        """Of its mirrors."""
        return f"/v3/links/{self.link}/mirrors"

    def state(self, topic: str) -> str:
        """Of a mirror; '' when nobody tells, or there is none.

        Raises:
            Stuck: it FAILED.
        """
        code, answer = self.operator.ask("GET", f"{self.path}/{topic}")
        if code == 200 and answer["mirror_status"] == "FAILED":
            raise Stuck(f"FAILED: {answer}")
        return str(answer["mirror_status"]) if code == 200 else ""


class JoinedConductor(DailyConductor):
    """One that knows these acts, too. `ways`: what was built, for the judge. `aside`: where their producers write."""

    worth: Mapping[str, int] = {**DailyConductor.worth, "aggregate": 2, "chain": 2, "fan_out": 1, "both_ways": 1}

    def __init__(self, plan: Plan, lab: Lab, cast: Cast, aside: Recorder) -> None:
        super().__init__(plan, lab, cast)
        self.ways: list[Way] = []
        self.sites: list[Site] = []  # whose links it has made
        self._aside = aside
        self._writers: list[LibrdkafkaProducer] = []

    def stop(self) -> None:
        """Begin no more; bring what is under way to its end."""
        super().stop()
        for writer in self._writers:
            writer.ask_to_stop()
        for writer in self._writers:
            writer.stop()

    # -- the topologies ----------------------------------------------------------------------------------------

    def _aggregate(self, act: Act) -> None:
        """Two sources with a topic of one name."""
        topic, mirror = act.what, PREFIX + act.what
        main, other = self._site(LINK), self._site(THIRD)
        self._link(other, self._third.bootstrap, **{"link.prefix": PREFIX})
        self._lab.source.create_topic(topic, 1)
        create_topic(self._third.bootstrap, topic, partitions=1)
        self.ways += [Way(((SOURCE, topic), (TARGET, topic))), Way(((THIRD, topic), (TARGET, mirror)))]
        here, there = self._writer(topic, self._lab.source.bootstrap), self._writer(topic, self._third.bootstrap)
        self._mirrored_by(main, topic, topic)
        self._mirrored_by(other, topic, mirror)
        for writer in (here, there):
            writer.stop()
        here, there = (
            self._writer(topic, self._lab.gateway_bootstrap),
            self._writer(mirror, self._lab.gateway_bootstrap),
        )
        self._get_on(here, there)
        self._promoted(main, topic)
        self._promoted(other, mirror)
        self._get_on(here, there)
        self._end(here, there)

    def _chain(self, act: Act) -> None:
        """Source, target, third. Who writes at the far gateway is forwarded by the fleet to where writes go."""
        topic = act.what
        main, far = self._site(LINK), self._far_site("chained")
        self._lab.source.create_topic(topic, 1)
        self.ways.append(Way(((SOURCE, topic), (TARGET, topic), (THIRD, topic))))
        writer = self._writer(topic, self._lab.source.bootstrap)
        self._mirrored_by(main, topic, topic)
        self._link(far, self._lab.gateway_bootstrap)
        self._mirrored_by(far, topic, topic)
        writer.stop()
        writer = self._writer(topic, self._far.bootstrap)
        self._get_on(writer)
        self._refused(far, topic)
        self._promoted(main, topic)
        self._get_on(writer)
        self._struck_at(far, topic, act)
        self._get_on(writer)
        self._end(writer)

    def _fan_out(self, act: Act) -> None:
        """Two targets of one source. Who wrote at the far gateway comes over before the promote here."""
        topic = act.what
        main, far = self._site(LINK), self._far_site("fanned")
        self._lab.source.create_topic(topic, 1)
        self.ways += [Way(((SOURCE, topic), (TARGET, topic))), Way(((SOURCE, topic), (THIRD, topic)), to_the_end=False)]
        here, there = self._writer(topic, self._lab.source.bootstrap), self._writer(topic, self._lab.source.bootstrap)
        self._mirrored_by(main, topic, topic)
        self._link(far, self._lab.source.bootstrap)
        self._mirrored_by(far, topic, topic)
        for writer in (here, there):
            writer.stop()
        here, there = self._writer(topic, self._lab.gateway_bootstrap), self._writer(topic, self._far.bootstrap)
        with self._far_struck(act, lambda: True):
            self._get_on(here, there)
        there.stop()
        there = self._writer(topic, self._lab.gateway_bootstrap)
        self._get_on(there)
        self._promoted(main, topic)
        self._get_on(here, there)
        self._end(here, there)

    def _both_ways(self, act: Act) -> None:
        """A topic that the target has of its own goes on to the third cluster, which is a source of the target."""
        topic = act.what
        far = self._far_site("back")
        self._lab.target.create_topic(topic, 1)
        self.ways.append(Way(((TARGET, topic), (THIRD, topic))))
        writer = self._writer(topic, self._lab.target.bootstrap)
        self._link(far, self._lab.target.bootstrap)
        self._mirrored_by(far, topic, topic)
        writer.stop()
        writer = self._writer(topic, self._far.bootstrap)
        self._get_on(writer)
        self._struck_at(far, topic, act)
        self._get_on(writer)
        self._end(writer)

    # -- parts -------------------------------------------------------------------------------------------------

    @property
    def _third(self) -> DevCluster:
        assert self._lab.third is not None
        return self._lab.third

    @property
    def _far(self) -> GatewayNode:
        assert self._lab.far is not None
        return self._lab.far

    def _site(self, link: str) -> Site:
        return Site(self._lab.operator, link)

    def _far_site(self, link: str) -> Site:
        assert self._lab.far_operator is not None
        return Site(self._lab.far_operator, link)

    def _link(self, site: Site, bootstrap: str, **configs: str) -> None:
        """It is there, once for all cycles."""
        path = f"/v3/links/{site.link}"
        if site not in self.sites:
            self.sites.append(site)
        values = {"bootstrap.servers": bootstrap, **configs}
        body = {"link_name": site.link, "configs": [{"name": name, "value": value} for name, value in values.items()]}
        self._reach(
            lambda: site.operator.ask("GET", path)[0] == 200,
            lambda: self._say(site, "POST", "/v3/links", body),
            path,
            site.operator,
        )

    def _mirrored_by(self, site: Site, topic: str, mirror: str) -> None:
        self._reach(
            lambda: site.state(mirror) == "ACTIVE",
            lambda: self._say(site, "POST", site.path, {"source_topic_name": topic}),
            f"{site.path}/{mirror}",
            site.operator,
        )

    def _promoted(self, site: Site, mirror: str) -> None:
        """Groups of the run wait at gates, and may not say what they have read: they are left out of account."""
        body = {"mirror_topic_names": [mirror], "force": True}

        def ask() -> None:
            if site.state(mirror) == "ACTIVE":
                self._say(site, "POST", f"{site.path}:promote", body)

        self._reach(lambda: site.state(mirror) == "STOPPED", ask, f"{site.path}/{mirror}", site.operator)

    def _struck_at(self, far: Site, topic: str, act: Act) -> None:
        """Promoted at the far gateway, which ends in the midst of it."""
        with self._far_struck(act, lambda: far.state(topic) == "PENDING_STOPPED"):
            self._promoted(far, topic)

    def _refused(self, site: Site, topic: str) -> None:
        """The end of a chain, before its beginning is promoted: with force people would say that it is."""
        told: list[str] = []

        def ask() -> None:
            self._say(site, "POST", f"{site.path}:promote", {"mirror_topic_names": [topic]})
            told.append(str(self._said))
            if 200 <= self._said[0] < 300:
                raise Stuck(f"what is not safe was begun: {self._said}")

        self._reach(lambda: bool(told) and NOT_PROMOTED_YET in told[-1], ask, f"{site.path}/{topic}", site.operator)

    def _say(self, site: Site, method: str, path: str, body: Any) -> None:
        self._said = site.operator.ask(method, path, body)

    @contextmanager
    def _far_struck(self, act: Act, is_moment: Callable[[], bool]) -> Iterator[None]:
        """The far gateway ends when the moment has come, and is started again."""
        if act.aim is None or self._over.is_set():
            yield
            return
        over, failed, aim = threading.Event(), list[str](), act.aim

        def strike() -> None:
            try:
                while not over.wait(0.02):
                    if is_moment():
                        over.wait(aim.delay_s)
                        failed.extend(self._end_far(aim.kind))
                        return
            except Exception as error:  # noqa: BLE001 - a thread that died would let the run pass with less done
                failed.append(f"the far gateway's {aim.kind}: {error!r}")
            finally:
                self._far.wait_up()

        thread = threading.Thread(target=strike, name="strike", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(180.0)
        if failed:
            raise Stuck(failed[0])

    def _end_far(self, kind: str) -> list[str]:
        """What is wrong with how it ended."""
        if kind == "kill":
            self._far.kill()
            return []
        code = self._far.stop()
        return [f"the far gateway ended with exit code {code} at SIGTERM"] if code else []

    def _writer(self, topic: str, bootstrap: str) -> LibrdkafkaProducer:
        """One more, with a name of its own, that writes."""
        name = f"joined-{len(self._writers)}"
        writer = LibrdkafkaProducer(self._aside, name, [(topic, 0)], EXTRA_RATE)
        self._writers.append(writer)
        writer.start(bootstrap, "")
        return writer

    def _get_on(self, *writers: LibrdkafkaProducer) -> None:
        """Each is acknowledged some more."""
        wanted = {writer: writer.acknowledged + _AT_LEAST for writer in writers}
        self._reach(
            lambda: all(writer.acknowledged >= count for writer, count in wanted.items()),
            lambda: None,
            "/v3/status",
        )

    @staticmethod
    def _end(*writers: LibrdkafkaProducer) -> None:
        for writer in writers:
            writer.ask_to_stop()
        for writer in writers:
            writer.stop()
