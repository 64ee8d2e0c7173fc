import pytest

from gateway.doctor.rules.facts import GatewayFacts, MachineFacts, PortFacts
from gateway.doctor.rules.finding import Level
from gateway.doctor.rules.machine import check_clock, check_machine, check_ports


def levels(files: tuple[int, int], connections: int | None, synchronised: bool | None = None) -> list[Level]:
    return [one.level for one in check_machine(MachineFacts(files=files, synchronised=synchronised), connections)]


def test_the_hard_limit_of_files_counts_and_what_clients_take() -> None:
    assert levels((1024, 40_512), 20_000) == [Level.OK]
    assert levels((1024, 40_511), 20_000) == [Level.WARN]
    assert levels((1024, -1), 20_000) == [Level.OK]
    assert levels((256, 256), None) == [Level.OK]


def test_a_clock_that_nobody_keeps() -> None:
    assert levels((1, -1), None, synchronised=True) == [Level.OK, Level.OK]
    assert levels((1, -1), None, synchronised=False) == [Level.OK, Level.WARN]


def test_ports() -> None:
    free = PortFacts(option="listener.bootstrap_port", host="127.0.0.1", port=9292)
    taken = PortFacts(option="api.port", host="127.0.0.1", port=8642, error="Address already in use")
    assert [(one.level, one.value) for one in check_ports([free])] == [(Level.OK, "free: 9292")]
    (found,) = check_ports([free, taken])
    assert found.value == "api.port: cannot listen on 127.0.0.1:8642: Address already in use"
    assert list(check_ports([])) == []


@pytest.mark.parametrize(
    ("ahead_s", "error_s", "level"),
    [
        (0.0, 0.5, Level.OK),
        (5.4, 0.5, Level.OK),
        (5.5, 0.5, Level.WARN),
        (-5.5, 0.5, Level.WARN),
        (60.4, 0.5, Level.WARN),
        (-60.5, 0.5, Level.FAIL),
    ],
)
def test_the_clock_of_a_gateway(ahead_s: float, error_s: float, level: Level) -> None:
    (found,) = check_clock(GatewayFacts(url="u", ahead_s=ahead_s, error_s=error_s))
    assert found.level is level
    if level is not Level.OK:
        assert ("behind" if ahead_s < 0 else "ahead of") in found.value


def test_a_gateway_that_tells_no_time() -> None:
    assert list(check_clock(GatewayFacts(url="u"))) == []
