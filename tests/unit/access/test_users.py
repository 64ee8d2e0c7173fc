"""SCRAM users over clusters in memory: who is made, with what, and what of it is seen by anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.access.rules.users import UserState
from gateway.access.users import NewSecrets, Users
from gateway.errors import BadRequest, Conflict, NotFound, TargetUnreachable
from gateway.kafka.access.scram_users import IN_A_REQUEST
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.kafka.rules.scram import ScramCredential, ScramKey, ScramMechanism, salted
from gateway.operations.link_policy import LinkPolicy
from gateway.operations.secrets.link_secrets import LinkSecrets
from protocol.errors import ErrorCode

SHA256, SHA512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
ALICE, BOB = ScramKey("alice", SHA256), ScramKey("bob", SHA256)
SECRET = "of alice and nobody else"


def there(*keys: ScramKey) -> dict[ScramKey, ScramCredential]:
    return {key: ScramCredential(key, 4096, b"salt of the source", b"verifier of the source") for key in keys}


@pytest.fixture
async def users(plane, tmp_path: Path) -> Users:
    await plane.with_link()
    plane.source.scram = there(ALICE, BOB)
    (tmp_path / "l").mkdir()
    (tmp_path / "l" / "users.properties").write_text(f"alice={SECRET}\n")
    policy = LinkPolicy(files=str(tmp_path), variables=("USER_*",))
    plane.sources.secrets = LinkSecrets(policy, environment={"USER_bob": "bob's"})
    plane.service.users._secrets = plane.sources.secrets
    found: Users = plane.service.users
    return found


def template(tmp_path: Path) -> NewSecrets:
    return NewSecrets(f"${{file:{tmp_path}/l/users.properties:*}}")


async def test_who_has_a_secret_is_made(plane, users, tmp_path):
    done = {row.user: row for row in (await users.apply("l", template(tmp_path))).rows}
    assert (done["alice"].state, done["bob"].state) == (UserState.CREATED, UserState.NO_SECRET)
    assert "has no 'bob'" in done["bob"].detail
    made = plane.target.scram[ALICE]
    assert made == salted(ALICE, 4096, made.salt, SECRET)
    assert made.salt != b"salt of the source"
    assert list(plane.target.scram) == [ALICE]


async def test_asked_again_nothing_is_made_twice(plane, users, tmp_path):
    await users.apply("l", template(tmp_path))
    before, requests = dict(plane.target.scram), len(plane.target.scram_requests)
    again = {row.user: row.state for row in (await users.apply("l", template(tmp_path))).rows}
    assert again == {"alice": UserState.PRESENT, "bob": UserState.NO_SECRET}
    assert (plane.target.scram, len(plane.target.scram_requests)) == (before, requests)


async def test_what_the_target_has_stays(plane, users, tmp_path):
    plane.target.scram = there(ALICE)
    before = dict(plane.target.scram)
    await users.apply("l", template(tmp_path))
    assert plane.target.scram == before


async def test_a_dry_run_reads_secrets_and_sends_none(plane, users, tmp_path):
    done = {row.user: row.state for row in (await users.apply("l", template(tmp_path), validate_only=True)).rows}
    assert done == {"alice": UserState.MISSING, "bob": UserState.NO_SECRET}
    assert plane.target.scram_requests == []


async def test_secrets_that_were_salted_elsewhere_count_first(plane, users, tmp_path):
    given = salted(ALICE, 4096, b"0123456789abcdef", "theirs")
    await users.apply("l", NewSecrets(template(tmp_path).template, {ALICE: given}), users=["alice"])
    assert plane.target.scram[ALICE] == given
    await users.apply("l", NewSecrets("${env:USER_*}"))
    made = plane.target.scram[BOB]
    assert made == salted(BOB, 4096, made.salt, "bob's")


async def test_a_refused_one_holds_no_other_up(plane, users, tmp_path):
    (tmp_path / "l" / "users.properties").write_text("alice=a\nbob=b\n")
    plane.target.refused_users = {"alice"}
    done = {row.user: row.state for row in (await users.apply("l", template(tmp_path))).rows}
    assert done == {"alice": UserState.REFUSED, "bob": UserState.CREATED}


async def test_requests_are_bounded_and_name_a_user_once(plane, users, tmp_path):
    keys = [ScramKey(f"u{index}", mechanism) for index in range(IN_A_REQUEST + 1) for mechanism in (SHA256, SHA512)]
    plane.source.scram = there(*keys)
    credentials = {key: salted(key, 4096, b"0123456789abcdef", "x") for key in keys}
    done = await users.apply("l", NewSecrets(salted=credentials))
    assert done.count(UserState.CREATED) == len(keys)
    assert sorted(map(len, plane.target.scram_requests)) == [1, 1, IN_A_REQUEST, IN_A_REQUEST]


async def test_a_lost_answer_is_told_and_can_be_asked_again(plane, users, tmp_path):
    plane.target.refuse["create_scram_users"] = ClusterUnavailable("gone")
    with pytest.raises(TargetUnreachable, match="gone"):
        await users.apply("l", template(tmp_path))
    del plane.target.refuse["create_scram_users"]
    assert (await users.apply("l", template(tmp_path))).count(UserState.CREATED) == 1


@pytest.mark.parametrize("bad", ["hush", "${file:/x:alice}", "${vault:/x:*}", "${dir:*}", "${encrypted:k:*}"])
async def test_templates_that_are_none(plane, users, bad):
    with pytest.raises(BadRequest, match="secrets: ") as error:
        await users.apply("l", NewSecrets(bad))
    assert "hush" not in str(error.value)


async def test_a_name_does_not_lead_to_other_files(plane, users, tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "outside").write_text("hush")
    plane.source.scram = there(ScramKey("../outside", SHA256))
    (row,) = (await users.apply("l", NewSecrets(f"${{dir:{tmp_path}/inner:*}}"))).rows
    assert (row.state, row.detail) == (UserState.NO_SECRET, "'../outside' cannot be the name of a file")


async def test_refusals(plane, users):
    with pytest.raises(NotFound):
        await users.plan("x")
    with pytest.raises(BadRequest, match="has no SCRAM user 'carol'"):
        await users.apply("l", NewSecrets("${env:USER_*}"), users=["carol"])
    plane.source.refuse["scram_users"] = BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "describe SCRAM users: no")
    with pytest.raises(Conflict, match="the source of link 'l' refuses"):
        await users.plan("l")


async def test_a_plan_says_what_nobody_copies(plane, users):
    plane.source.owners, plane.source.features = {"User:alice": 3}, {"share.version": 1}
    plane.source.broker_defaults = {"num.partitions": "6", "log.dirs": "/data"}
    plane.target.refuse["broker_configs"] = BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no right")
    said = [(one.kind.value, one.name) for one in (await users.plan("l")).not_copied]
    assert said == [
        ("DELEGATION_TOKENS", "User:alice"),
        ("FEATURE_LEVEL", "share.version"),
        ("BROKER_DEFAULT", "num.partitions"),
        ("BROKER_DEFAULT", ""),
    ]


async def test_no_secret_is_shown_or_stored(plane, users, tmp_path, caplog, capsys):
    done = await users.apply("l", template(tmp_path))
    made = plane.target.scram[ALICE]
    shown = f"{done}{caplog.text}{capsys.readouterr()}{made}{NewSecrets(salted={ALICE: made})}{plane.log.kept}"
    for hidden in (SECRET, str(made.salted_password), made.salted_password.hex()):
        assert hidden not in shown


async def test_one_that_somebody_makes_meanwhile_stays(plane, users, tmp_path, monkeypatch):
    """Passwords of thousands are salted for a minute: what the target has is asked right before each request."""
    theirs, salt = there(ALICE), users._salted

    def and_somebody_else(*args):
        plane.target.scram.update(theirs)
        return salt(*args)

    monkeypatch.setattr(users, "_salted", and_somebody_else)
    done = {row.user: row.state for row in (await users.apply("l", template(tmp_path))).rows}
    assert done["alice"] is UserState.PRESENT
    assert plane.target.scram[ALICE] == theirs[ALICE]
