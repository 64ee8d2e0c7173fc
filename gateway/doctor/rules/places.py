"""Names, addresses and certificates: whether a client gets there from here. Pure.

Of many places that are all well one line is made, so that what is not well is seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gateway.doctor.rules.facts import CertificateFacts, FileFacts, PlaceFacts
from gateway.doctor.rules.finding import DoctorFinding, bad, many, ok, warn
from gateway.kafka.rules.names import some_of

SOON_S: Final = 30 * 86_400.0
"""A certificate that ends within this is renewed now."""
_ADVERTISED: Final = "the broker tells clients this address (its advertised.listeners)"


def check_places(what: str, places: Sequence[PlaceFacts]) -> Iterator[DoctorFinding]:
    """DNS, and a TCP connection to every address of every name."""
    if not places:
        return
    lost = [place for place in places if place.unresolved]
    for place in lost:
        yield bad(
            "dns",
            what,
            f"{place.host} does not resolve: {place.unresolved}",
            f"put the name into the DNS, or into /etc/hosts, of this machine; {_whose(place)}",
        )
    found = [place for place in places if not place.unresolved]
    troubled = list(_connects(what, found))
    yield from troubled
    if found and not troubled:
        addresses = len({one.address for place in found for one in place.addresses})
        yield ok(
            "address",
            what,
            f"{some_of(place.name for place in found)}: "
            + (f"all {addresses} addresses connect" if addresses > 1 else "connects"),
        )


def _connects(what: str, places: Iterable[PlaceFacts]) -> Iterator[DoctorFinding]:
    for place in places:
        closed = [one for one in place.addresses if one.error]
        if not closed:
            continue
        reasons = "; ".join(f"{one.address}: {one.error}" for one in closed)
        if not place.connects:
            yield bad(
                "address",
                what,
                f"{place.name} takes no connection ({reasons})",
                f"open the port between this machine and it, and see that something listens there; {_whose(place)}",
            )
        else:
            yield warn(
                "address",
                what,
                f"{place.name} takes no connection at {len(closed)} of {len(place.addresses)} addresses ({reasons})",
                "clients that try such an address first wait for it: have it listen there, or take the address out of "
                "the DNS",
            )


def _whose(place: PlaceFacts) -> str:
    return f"{_ADVERTISED}, so clients and gateways need it" if place.advertised else "or name another address"


def check_certificates(
    what: str, places: Iterable[PlaceFacts], now: float, *, verifies_names: bool
) -> Iterator[DoctorFinding]:
    """TLS of listeners: trusted, for this name, and not soon over. `now`: seconds since the epoch."""
    seen = [(place, place.certificate) for place in places if place.certificate is not None]
    troubled = False
    for place, found in seen:
        for finding in _certificate(what, place, found, now, verifies_names=verifies_names):
            troubled = True
            yield finding
    if seen and not troubled:
        ends = min(found.not_after for _, found in seen)
        yield ok("tls", what, f"{many(len(seen), 'certificate')} trusted, good until {day(ends)}")


def _certificate(
    what: str, place: PlaceFacts, found: CertificateFacts, now: float, *, verifies_names: bool
) -> Iterator[DoctorFinding]:
    timing = list(_timing("tls", what, f"certificate of {place.name}", found, now))
    yield from timing
    if found.error and not timing:
        yield bad("tls", what, f"{place.name}: {found.error}", _tls_remedy(found, place.host))
    elif not verifies_names and found.names and not covers(found.names, place.host):
        yield warn(
            "tls",
            what,
            f"certificate of {place.name} is good for {some_of(found.names)}, and names are not checked",
            "have one made for this name, and set ssl.endpoint.identification.algorithm to https",
        )


def _tls_remedy(found: CertificateFacts, host: str) -> str:
    if found.names and not covers(found.names, host):
        return f"the certificate is good for {some_of(found.names)}: ask by such a name, or have one made for {host}"
    if found.not_after:
        return "set ssl.ca.location to the CA that has signed it, with every intermediate one"
    return "see that TLS is spoken at this port (security.protocol), in a version that both sides have"


def _timing(check: str, what: str, whose: str, found: CertificateFacts, now: float) -> Iterator[DoctorFinding]:
    if not found.not_after:
        return
    if now >= found.not_after:
        yield bad(check, what, f"{whose} is over since {day(found.not_after)}", "renew it")
    elif now < found.not_before:
        yield bad(
            check,
            what,
            f"{whose} is not good before {day(found.not_before)}",
            "set the clock of this machine right, or wait",
        )
    elif found.not_after - now < SOON_S:
        left = int((found.not_after - now) // 86_400)
        yield warn(check, what, f"{whose} is over in {many(left, 'day')}, on {day(found.not_after)}", "renew it")


def check_files(files: Sequence[FileFacts], now: float) -> Iterator[DoctorFinding]:
    """Certificates that the settings name."""
    for file in files:
        found = file.certificate
        whose = f"{file.option}: {file.path}"
        if found.error:
            yield bad(
                "certificate", "settings", f"{whose}: {found.error}", "name a certificate in PEM that can be read"
            )
            continue
        timing = list(_timing("certificate", "settings", whose, found, now))
        uncovered = [host for host in file.told if not covers(found.names, host)]
        if uncovered:
            timing.append(
                bad(
                    "certificate",
                    "settings",
                    f"{whose} is not good for {some_of(uncovered)}, which clients are told",
                    "have one made for these names, or advertise a name that it has",
                )
            )
        yield from timing or [ok("certificate", "settings", f"{whose}: good until {day(found.not_after)}")]


def check_told(option: str, host: str) -> Iterator[DoctorFinding]:
    """What clients are told as a listener's host."""
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 - a comparison
        yield bad(
            "listener",
            "settings",
            f"{option}: clients are told to come to {host or 'nowhere'}, which is no address",
            f"set {option.replace('.host', '.advertised_host')} to a name that clients resolve",
        )


def covers(names: Iterable[str], host: str) -> bool:
    """Whether one of a certificate's names, perhaps with `*` for its first label, is good for a host (RFC 6125)."""
    host = host.lower()
    parent = host.partition(".")[2]
    return any(
        name.lower() == host or (name.startswith("*.") and parent and parent == name[2:].lower()) for name in names
    )


def day(seconds: float) -> str:
    """For people."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
