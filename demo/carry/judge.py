"""The last act: stop, read both clusters and both registries, judge."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from demo.carry.acts import stop
from demo.carry.brokers import login
from demo.carry.look import Held, acls_of, is_throttled, quotas_of, users_of
from demo.carry.orders import THIRD, VALUES, Orders, text_of
from demo.carry.rights import APP, AUDITOR, BILLING, PACKING, USERS, WEB
from demo.carry.run import CarryRun
from demo.carry.settings import GROUP, SHARE_GROUP, STATES_S, TOPIC
from demo.carry.verdict import CarryVerdict, Told, judge_all
from demo.history import Side
from demo.readback import read_topic
from demo.secure.authorizer_log import Decision, decisions_of
from demo.settings import COMMAND_S, GROUP_CAUGHT_UP_S, READ_BACK_S


def judge(run: CarryRun) -> CarryVerdict:
    """Stop the clients, look at both sides, compare."""
    with run.view.step("Stop the producers, let both groups read to the end, stop them") as step:
        stop(run, run.fleet.producers)
        if not run.within(lambda: _have_read(run), GROUP_CAUGHT_UP_S):
            step.note = "a group did not come to the end"  # the judge will say how much it missed
        stop(run, run.fleet.members())
    with run.view.step(f"Read the topic as {AUDITOR}, who has a small quota") as step:
        own = login(AUDITOR, run.passwords[Side.TARGET][AUDITOR])
        throttled = run.in_background(
            partial(is_throttled, run.bootstrap_of(Side.TARGET), own, TOPIC), "the quota to be felt", COMMAND_S
        )
        step.note = "slowed down" if throttled else "not slowed down"
    with run.view.step("Read both clusters and both registries back") as step:
        run.within(lambda: not _acls_differ(run), STATES_S)  # else the judge will say which
        source, target = run.at_once([partial(_held, run, side) for side in Side], "both sides", READ_BACK_S + 30)
        step.note = f"{len(target.log):,} records, {len(target.acls)} ACLs, {len(target.subjects)} subjects"
    with run.view.step("Register a schema on the target's registry"):
        next_id = run.in_background(
            lambda: run.registry(Side.TARGET).register(VALUES, text_of(THIRD)), "the registry", COMMAND_S
        )
    with run.view.step("Ask lockgate what clients may do, read the target's authorizer log"):
        told = run.in_background(partial(_told, run, throttled, next_id), "the answers", COMMAND_S)
    with run.view.step("Stop the gateway and the clusters"):
        if run.gateway is not None:
            gateway, run.gateway = run.gateway, None
            gateway.stop()
        run.at_once([run.source.down, run.target.down], "the clusters to stop", 60.0)
    with run.view.step("Compare"):
        return judge_all(run.fleet.history, source, target, told)


def _have_read(run: CarryRun) -> bool:
    """All that was acknowledged, by each group."""
    written = sum(len(acks) for acks in run.fleet.history.acks.values())
    return all(
        len({record for batch in run.fleet.history.reads[group] for record in batch.ids}) >= written
        for group in (GROUP, SHARE_GROUP)
    )


def _acls_differ(run: CarryRun) -> bool:
    ours, theirs = run.at_once(
        [partial(acls_of, run.cluster(side).bootstrap, run.access[side]) for side in Side], "the ACLs", COMMAND_S
    )
    return ours != theirs


def _held(run: CarryRun, side: Side) -> Held:
    bootstrap, access, registry = run.cluster(side).bootstrap, run.access[side], run.registry(side)
    orders = Orders(registry.schema)
    log = read_topic(bootstrap, TOPIC, run.settings.partitions, READ_BACK_S, access=access, parse=orders.parse)
    return Held(
        log=log,
        ids=orders.ids,
        acls=acls_of(bootstrap, access),
        users=users_of(bootstrap, access),
        quotas=quotas_of(bootstrap, access),
        subjects=registry.content(),
        level=registry.level(VALUES),
    )


def _told(run: CarryRun, throttled: bool, next_id: int) -> Told:
    state, again = run.group(SHARE_GROUP)
    assert run.registries is not None
    return Told(
        differences=tuple(_differences(run)),
        share_promoted=state == "PROMOTED",
        share_again=again,
        throttled=throttled,
        nameless=tuple(missing_names(decisions_of(run.target), run.promoted_ms)),
        next_id=next_id,
        offences=run.registries.offences,
    )


def _differences(run: CarryRun) -> Iterable[str]:
    """As `link acls plan` and `access check` show them."""
    plan = run.told("/acl-plan")
    for sign, name in (("+", "create"), ("-", "delete"), ("!", "errors")):
        yield from (f"{sign} {one}" for one in plan[name])
    for user in USERS:
        answer = run.told("/access", principal=f"User:{user}")
        yield from (f"{user}: {row}" for row in answer["data"] if row["differs"])


def missing_names(decisions: Iterable[Decision], since_ms: int) -> list[str]:
    """Which clients the target's authorizer did not know by their names after the promote, a line each."""
    seen = {
        (one.who, one.request, one.operation, one.resource)
        for one in decisions
        if one.allowed and one.at_ms >= since_ms and one.resource in (f"Topic {TOPIC}", f"Group {GROUP}")
    }
    wanted = [(name, "Produce", "WRITE", f"Topic {TOPIC}") for name in (WEB, APP)]
    wanted.append((BILLING, "OffsetCommit", "READ", f"Group {GROUP}"))
    wanted += [(name, "ShareFetch", "READ", f"Topic {TOPIC}") for name in PACKING]
    return [f"{who}: {request} of {what}" for who, request, operation, what in wanted
            if (who, request, operation, what) not in seen]  # fmt: skip
