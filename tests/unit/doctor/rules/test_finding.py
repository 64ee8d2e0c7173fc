import pytest

from gateway.doctor.rules.finding import DoctorFinding, Level, bad, ok, warn, worst


def test_trouble_has_a_remedy_and_what_is_well_has_none() -> None:
    with pytest.raises(ValueError, match="a remedy belongs"):
        DoctorFinding(check="dns", level=Level.FAIL, what="target", value="lost")
    with pytest.raises(ValueError, match="a remedy belongs"):
        DoctorFinding(check="dns", level=Level.OK, what="target", value="found", remedy="nothing")


def test_the_worst_counts() -> None:
    fine, odd, lost = ok("a", "b", "c"), warn("a", "b", "c", "d"), bad("a", "b", "c", "d")
    assert worst([]) is Level.OK
    assert worst([fine]) is Level.OK
    assert worst([fine, odd]) is Level.WARN
    assert worst([odd, lost, fine]) is Level.FAIL
