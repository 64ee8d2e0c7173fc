"""Which SCRAM users are missing, and what each needs."""

from __future__ import annotations

import pytest

from gateway.access.rules import users
from gateway.access.rules.users import ClientIdentities, TooManyUsers, UserState, in_requests, notes, plan_users
from gateway.kafka.rules.scram import LEAST_ITERATIONS, MOST_ITERATIONS, ScramKey, ScramMechanism

SHA256, SHA512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
ALICE, BOB = ScramKey("alice", SHA256), ScramKey("bob", SHA512)
RELAYED = ClientIdentities(relayed=("listener",))


def states(
    rules: str = "DEFAULT", identities: ClientIdentities = RELAYED, target: tuple[ScramKey, ...] = ()
) -> dict[str, UserState]:
    rows = plan_users({ALICE: 4096, BOB: 8192}, target, rules, identities)
    return {row.user: row.state for row in rows}


def test_who_is_not_there_is_missing():
    assert states() == {"alice": UserState.MISSING, "bob": UserState.MISSING}
    assert states(target=(ALICE,)) == {"alice": UserState.PRESENT, "bob": UserState.MISSING}


def test_each_mechanism_is_a_credential_of_its_own():
    both = {ALICE: 4096, ALICE._replace(mechanism=SHA512): 4096}
    rows = plan_users(both, (ALICE,), "DEFAULT", RELAYED)
    assert [(row.mechanism, row.state) for row in rows] == [(SHA256, UserState.PRESENT), (SHA512, UserState.MISSING)]


def test_users_are_named_by_the_mapping_rules():
    (row,) = plan_users({ALICE: 4096}, (ScramKey("prod-alice", SHA256),), "RULE:User:(.*)/User:prod-$1/", RELAYED)
    assert (row.target_user, row.state) == ("prod-alice", UserState.PRESENT)
    (row,) = plan_users({ALICE: 4096}, (), "RULE:User:b.*/User:bob/", RELAYED)
    assert (row.target_user, row.state) == ("", UserState.PRINCIPAL_NOT_MAPPED)


def test_two_users_do_not_become_one():
    one = {ALICE: 4096, ScramKey("bob", SHA256): 4096}
    rows = plan_users(one, (), "RULE:User:(alice|bob)/User:app/", RELAYED)
    assert {row.state for row in rows} == {UserState.SAME_NAME}


def test_nobody_gets_the_gateways_own_name():
    identities = ClientIdentities(own="bob", relayed=("listener",))
    assert states(identities=identities) == {"alice": UserState.MISSING, "bob": UserState.OWN_NAME}


@pytest.mark.parametrize(
    ("identities", "alice"),
    [
        (ClientIdentities(by_token=("listener",)), UserState.NOT_NEEDED),
        (ClientIdentities(by_token=("listener",), relayed=("listeners.sasl",)), UserState.MISSING),
        (ClientIdentities(by_token=("listener",), relayed=("listeners.sasl",), without=("al*",)), UserState.NOT_NEEDED),
        (ClientIdentities(), UserState.MISSING),
    ],
)
def test_who_comes_by_token_needs_none(identities, alice):
    assert states(identities=identities)["alice"] is alice


def test_iterations_are_what_brokers_take():
    rows = plan_users({ALICE: 1, BOB: 10**6}, (), "DEFAULT", RELAYED)
    assert [row.iterations for row in rows] == [LEAST_ITERATIONS, MOST_ITERATIONS]


def test_a_user_stands_in_a_request_once():
    keys = [ScramKey(name, mechanism) for name in "abc" for mechanism in (SHA256, SHA512)]
    requests = in_requests(keys, 2)
    assert sorted(key for some in requests for key in some) == sorted(keys)
    assert all(len({key.user for key in some}) == len(some) <= 2 for some in requests)


def test_the_number_is_bounded(monkeypatch):
    monkeypatch.setattr(users, "MOST_USERS", 1)
    with pytest.raises(TooManyUsers, match="the source has 2 SCRAM credentials; 1 are possible"):
        states()


def test_notes():
    assert notes(ClientIdentities(by_token=("listener",), relayed=("listeners.a",)))[0].startswith(
        "clients of listener need"
    )
    assert "no listener" in notes(ClientIdentities(relayed=("listener",), without=("x",)))[0]
    assert notes(RELAYED) == []


def test_a_user_of_the_target_gets_no_second_password():
    """The target has an alice by a mechanism that the source's alice has not: she may be somebody else."""
    rows = plan_users({ALICE: 4096}, (ALICE._replace(mechanism=SHA512),), "DEFAULT", RELAYED)
    assert [row.state for row in rows] == [UserState.SAME_NAME]
    assert rows[0].detail == "the target has a user alice by SCRAM-SHA-512, who may be somebody else"
