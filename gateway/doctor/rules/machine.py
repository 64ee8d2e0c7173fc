"""The machine: how many files a gateway may have open, whether its clock is right, whether its ports are free. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gateway.doctor.rules.facts import GatewayFacts, MachineFacts, PortFacts
from gateway.doctor.rules.finding import DoctorFinding, bad, ok, warn

PER_CLIENT: Final = 2
"""Files of a client's connection: its own, and that to its broker."""
OF_ITS_OWN: Final = 512
"""What a gateway has open besides: listeners, links, pools, splice pipes of a moment."""
FULL: Final = 0.8
AHEAD_S: Final = 5.0
"""By how much clocks may differ without a word."""
FAR_S: Final = 60.0
"""From here on leases, tokens and certificates are judged wrongly."""


def check_machine(facts: MachineFacts, connections: int | None) -> Iterator[DoctorFinding]:
    """`connections`: how many clients the settings let in; None when they are not known."""
    yield _files(facts.files, connections)
    if facts.synchronised is None:
        return
    if facts.synchronised:
        yield ok("clock", "this machine", "synchronised, says the kernel")
    else:
        yield warn(
            "clock",
            "this machine",
            "nobody keeps it right, says the kernel",
            "run an NTP client (chrony) here, or on a container's host: certificates and tokens go by it",
        )


def _files(limits: tuple[int, int], connections: int | None) -> DoctorFinding:
    """The gateway raises its own soft limit to the hard one."""
    _, hard = limits
    who, value = "this shell", f"{'unlimited' if hard < 0 else hard} open files (hard limit)"
    needed = 0 if connections is None else connections * PER_CLIENT + OF_ITS_OWN
    if 0 <= hard < needed:
        return warn(
            "files",
            who,
            f"{value}, and {connections} clients take {needed}",
            f"give a gateway LimitNOFILE={needed} (systemd) or --ulimit nofile={needed} (a container), or lower "
            "limits.connections",
        )
    return ok("files", who, value)


def check_ports(ports: Sequence[PortFacts]) -> Iterator[DoctorFinding]:
    """Of a gateway that does not run yet."""
    troubled = [port for port in ports if port.error]
    for port in troubled:
        yield bad(
            "port",
            "settings",
            f"{port.option}: cannot listen on {port.host}:{port.port}: {port.error}",
            f"end what has the port (ss -ltnp 'sport = :{port.port}'), or set another one",
        )
    if ports and not troubled:
        yield ok("port", "settings", f"free: {', '.join(str(port.port) for port in ports)}")


def check_clock(facts: GatewayFacts) -> Iterator[DoctorFinding]:
    """The gateway's clock beside the one here. Brokers tell no time."""
    if facts.ahead_s is None:
        return
    off = max(0.0, abs(facts.ahead_s) - facts.error_s)
    value = f"{abs(facts.ahead_s):.0f} s {'ahead of' if facts.ahead_s > 0 else 'behind'} this machine's"
    remedy = "run an NTP client on both machines"
    if off >= FAR_S:
        yield bad("clock", "gateway", value, remedy)
    elif off >= AHEAD_S:
        yield warn("clock", "gateway", value, remedy)
    else:
        yield ok("clock", "gateway", "the same as here")
