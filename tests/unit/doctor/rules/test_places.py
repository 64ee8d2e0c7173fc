from pathlib import Path

import pytest

from gateway.doctor.rules.facts import AddressFacts, CertificateFacts, FileFacts, PlaceFacts
from gateway.doctor.rules.finding import DoctorFinding, Level
from gateway.doctor.rules.places import check_certificates, check_files, check_places, check_told, covers

NOW = 1_800_000_000.0
DAY = 86_400.0
OPEN = AddressFacts(address="10.0.0.1")
CLOSED = AddressFacts(address="fd00::1", error="connection refused")
GOOD = CertificateFacts(not_before=NOW - DAY, not_after=NOW + 90 * DAY, names=("kafka-1", "*.example.org"))


def place(*addresses: AddressFacts, host: str = "kafka-1", certificate: CertificateFacts | None = None) -> PlaceFacts:
    return PlaceFacts(host=host, port=9092, addresses=addresses, certificate=certificate)


def certificate(**changes: object) -> CertificateFacts:
    known = {"not_before": GOOD.not_before, "not_after": GOOD.not_after, "names": GOOD.names, "error": ""}
    return CertificateFacts(**{**known, **changes})  # type: ignore[arg-type]


def of_tls(found: CertificateFacts, *, host: str = "kafka-1", verifies_names: bool = True) -> list[DoctorFinding]:
    seen = [place(OPEN, host=host, certificate=found)]
    return list(check_certificates("target", seen, NOW, verifies_names=verifies_names))


def test_places_that_are_all_well_are_one_line() -> None:
    (found,) = check_places("target", [place(OPEN), place(OPEN, AddressFacts(address="::1"), host="kafka-2")])
    assert (found.level, found.value) == (Level.OK, "kafka-1:9092, kafka-2:9092: all 2 addresses connect")


def test_a_name_that_does_not_resolve() -> None:
    (found,) = check_places("target", [PlaceFacts(host="lost", port=9092, unresolved="Name or service not known")])
    assert (found.level, found.check) == (Level.FAIL, "dns")
    assert found.value == "lost does not resolve: Name or service not known"


def test_an_advertised_name_is_the_brokers_word() -> None:
    (found,) = check_places("target", [PlaceFacts(host="lost", port=9092, unresolved="not known", advertised=True)])
    assert "advertised.listeners" in found.remedy


def test_one_address_of_two_that_is_closed_is_a_warning_and_all_are_a_failure() -> None:
    (found,) = check_places("target", [place(OPEN, CLOSED)])
    assert (found.level, "fd00::1: connection refused" in found.value) == (Level.WARN, True)
    (found,) = check_places("target", [place(CLOSED)])
    assert (found.level, found.value) == (Level.FAIL, "kafka-1:9092 takes no connection (fd00::1: connection refused)")


def test_an_address_of_ipv6_is_written_as_one() -> None:
    assert PlaceFacts(host="::1", port=9092).name == "[::1]:9092"


def test_certificates_that_are_well_are_one_line() -> None:
    (found,) = of_tls(GOOD)
    assert (found.level, found.value) == (Level.OK, "1 certificate trusted, good until 2027-04-15")


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        ({"not_after": NOW - DAY}, Level.FAIL, "is over since 2027-01-14"),
        ({"not_after": NOW - DAY, "error": "certificate has expired"}, Level.FAIL, "is over since 2027-01-14"),
        ({"not_before": NOW + DAY}, Level.FAIL, "is not good before 2027-01-16"),
        ({"not_after": NOW + 29 * DAY}, Level.WARN, "is over in 29 days, on 2027-02-13"),
        ({"not_after": NOW + DAY}, Level.WARN, "is over in 1 day, on 2027-01-16"),
        ({"error": "unable to get local issuer certificate"}, Level.FAIL, "kafka-1:9092: unable to get local issuer"),
        ({"error": "wrong version number", "not_after": 0.0, "names": ()}, Level.FAIL, "wrong version number"),
    ],
)
def test_what_is_wrong_with_a_certificate(changes: dict[str, object], level: Level, words: str) -> None:
    (found,) = of_tls(certificate(**changes))
    assert (found.level, words in found.value) == (level, True), found


def test_one_that_ends_in_thirty_days_is_well() -> None:
    assert [one.level for one in of_tls(certificate(not_after=NOW + 30 * DAY))] == [Level.OK]


def test_the_remedy_says_which_names_it_has() -> None:
    (found,) = of_tls(certificate(error="Hostname mismatch"), host="10.0.0.1")
    assert found.remedy.startswith("the certificate is good for kafka-1, *.example.org")
    (found,) = of_tls(certificate(error="self-signed certificate"))
    assert "ssl.ca.location" in found.remedy


def test_a_name_that_nobody_checks() -> None:
    (found,) = of_tls(GOOD, host="other", verifies_names=False)
    assert (found.level, "names are not checked" in found.value) == (Level.WARN, True)


def test_without_tls_nothing_is_said() -> None:
    assert list(check_certificates("target", [place(OPEN)], NOW, verifies_names=True)) == []


def test_files_of_the_settings() -> None:
    def of(found: CertificateFacts, *told: str) -> list[DoctorFinding]:
        return list(
            check_files([FileFacts(option="listener.tls", path=str(Path("a")), certificate=found, told=told)], NOW)
        )

    assert [one.level for one in of(GOOD, "kafka-1", "b.example.org")] == [Level.OK]
    assert [one.level for one in of(CertificateFacts(error="No such file or directory"))] == [Level.FAIL]
    (found,) = of(GOOD, "gateway")
    assert "is not good for gateway, which clients are told" in found.value
    late = of(certificate(not_after=NOW), "gateway")
    assert [one.level for one in late] == [Level.FAIL, Level.FAIL]


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_clients_are_told_an_address(host: str) -> None:
    (found,) = check_told("listener.host", host)
    assert (found.level, "listener.advertised_host" in found.remedy) == (Level.FAIL, True)
    assert list(check_told("listener.host", "gateway.example.org")) == []


def test_wildcards_stand_for_one_label() -> None:
    assert covers(["*.example.org"], "a.Example.org")
    assert not covers(["*.example.org"], "a.b.example.org")
    assert not covers(["*.example.org"], "example.org")
    assert not covers([], "a")
