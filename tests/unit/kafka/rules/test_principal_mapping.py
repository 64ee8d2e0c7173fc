"""ssl.principal.mapping.rules: what Kafka's own tests hold of them, and what is refused."""

from __future__ import annotations

import pytest

from gateway.kafka.rules.principal_mapping import LONGEST_SUBJECT, NoMatchingRule, PrincipalMapping

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_kafkas_example(subject: str, name: str) -> None:
    assert PrincipalMapping(RULES).name(subject) == name


@pytest.mark.parametrize(
    "rules",
    [
        "DEFAULT",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
        "RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U",
        "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
        "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
    ],
)
def test_rules_that_kafka_takes(rules: str) -> None:
    PrincipalMapping(rules)


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:(/x/",
        "RULE:a/$1/",
        "RULE:(a)/$/",
        "RULE:(a)/${b}/",
    ],
)
def test_rules_that_are_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        PrincipalMapping(rules)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        # blanks and empty rules around, commas and rules in patterns
        (",,RULE:^CN=(.*)$/$1/ ,,, DEFAULT, ,", "CN=a", "a"),
        ("  RULE:   /     / ,  DEFAULT  ", "   ", "     "),
        ("RULE:,RULE:,/,RULE:,\\//U,DEFAULT", ",RULE:,", ",RULE:,/"),
        ("RULE:a\\/b/c\\/d/", "a/b", "c/d"),
        # a comma in a name
        ("RULE:^CN=((\\\\, *|\\w)+)(,.*|$)/$1/,DEFAULT", "CN=Tkac\\, Adam,OU=ITZ,DC=geodis,DC=cz", "Tkac\\, Adam"),
        # groups: more digits than there are groups, groups that are not there
        ("RULE:^CN=(.*)$/$12/", "CN=a", "a2"),
        ("RULE:^CN=(.*)$/$1@$4/", "CN=a", "a@$4"),
        ("RULE:^CN=(.*)$/$0/", "CN=a", "CN=a"),
        ("RULE:^CN=(?<who>.*)$/${who}-\\$1/", "CN=a", "a-$1"),
        ("RULE:^CN=(a)|CN=(b)$/x$1/", "CN=b", "x"),
        # what Java's replaceAll does with a pattern that also matches nothing
        ("RULE:.*/x/", "a", "xx"),
        # \w is ASCII in Java
        ("RULE:CN=\\w+/short/, DEFAULT", "CN=é", "CN=é"),
    ],
)
def test_as_java_does_it(rules: str, subject: str, name: str) -> None:
    assert PrincipalMapping(rules).name(subject) == name


def test_the_first_that_matches_counts_and_without_one_it_is_nobody() -> None:
    mapping = PrincipalMapping("RULE:^CN=a$/first/,RULE:^CN=.*$/second/")
    assert mapping.name("CN=a") == "first"
    assert mapping.name("CN=b") == "second"
    for nobody in (mapping, PrincipalMapping("")):
        with pytest.raises(NoMatchingRule, match="no rule applies to the certificate O=b"):
            nobody.name("O=b")
    assert PrincipalMapping().name("O=b") == "O=b"


def test_a_subject_is_as_long_as_a_name_may_be() -> None:
    """Patterns are an administrator's, and may backtrack; the subject is whoever's the certificate is."""
    longest = "CN=" + "x" * (LONGEST_SUBJECT - 3)
    assert PrincipalMapping().name(longest) == longest
    with pytest.raises(NoMatchingRule, match="1024 characters at most, not 1025$"):
        PrincipalMapping(RULES).name(longest + "x")
