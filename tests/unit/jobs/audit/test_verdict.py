from gateway.jobs.audit.verdict import Compared, Counts, Finding, Verdict, judge, overall


def compared(*, end: int = 100, start: int = 0) -> Compared:
    return Compared(
        topic="t",
        partition=0,
        source_start=0,
        source_end=100,
        target_start=start,
        target_end=end,
        start=start,
        end=end,
    )


def divergence(source: int | None, target: int | None) -> dict[str, object]:
    return {"source_offset": source, "target_offset": target, "difference": "value", "source": None, "target": None}


def test_identical() -> None:
    found = judge(compared(), Counts(), None)
    assert found.sentence == "IDENTICAL up to offset 100"
    assert found.notes == ()


def test_a_target_that_lags() -> None:
    found = judge(compared(end=90), Counts(), None)
    assert found.verdict is Verdict.INCOMPLETE
    assert found.sentence == "INCOMPLETE: identical up to offset 90, the source ends at 100"


def test_diverged() -> None:
    assert judge(compared(), Counts(), divergence(42, 42)).sentence == "DIVERGED at offset 42: value"
    assert judge(compared(end=90), Counts(), divergence(None, 7)).identical_up_to == 7


def test_what_was_not_compared_is_said() -> None:
    assert judge(compared(start=10), Counts(), None).notes == (
        "source offsets 0..9 were not compared: the target's log begins after them",
    )


def test_the_worst_verdict_counts() -> None:
    good, late = judge(compared(), Counts(), None), judge(compared(end=1), Counts(), None)
    bad = judge(compared(), Counts(), divergence(1, 1))
    findings: list[list[Finding]] = [[], [good], [good, late], [late, bad, good]]
    assert [overall(each) for each in findings] == [
        Verdict.IDENTICAL,
        Verdict.IDENTICAL,
        Verdict.INCOMPLETE,
        Verdict.DIVERGED,
    ]
