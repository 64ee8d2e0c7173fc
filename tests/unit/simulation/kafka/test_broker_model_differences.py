"""Which differences between real brokers and the model may be an answer that has not come yet."""

import pytest

from tests.broker_model.context import Entry
from tests.broker_model.run import Difference

JOINED, SYNCED = ("member1 joins v4", {"error_code": 0}), ("member1 syncs v3", {"error_code": 0})


@pytest.mark.parametrize(
    ("real", "model", "lacks"),
    [
        ([], [JOINED], True),
        ([SYNCED], [JOINED, SYNCED], True),
        ([JOINED], [SYNCED], False),
        ([("member1 joins v4", {"error_code": 25})], [JOINED, SYNCED], False),
        ([JOINED, SYNCED], [JOINED], False),
    ],
)
def test_only_a_side_that_says_less_is_given_more_time(real: list[Entry], model: list[Entry], lacks: bool) -> None:
    assert Difference((), 0, real, model).lacks_answers is lacks
