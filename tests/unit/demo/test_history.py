"""What the clients log is what the judge gets."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout

import pytest

from demo.clients.common import EventLog, Fetched, log_reads
from demo.history import History, Side, parse_lines
from demo.records import RecordId, value_of


def test_acks_reads_departures_and_errors_come_through() -> None:
    history = History()
    history.add_producer(
        "one",
        parse_lines(
            [
                '{"ev":"started","t":1,"first":0}',
                '{"ev":"ack","t":2,"s":0,"p":3,"o":7}',
                '{"ev":"error","t":3,"s":1,"message":"timed out"}',
            ]
        ),
    )
    history.add_member("readers", "reader-1", Side.TARGET, parse_lines(['{"ev":"leaving","t":9}']))
    assert history.acks["one"] == [(0, 3, 7, 2)]
    assert history.errors == [("one", 3, "timed out")]
    assert history.departures["readers"] == [("reader-1", Side.TARGET, 9)]


def test_reads_are_logged_per_run_of_one_partition_and_give_the_offsets_to_commit() -> None:
    fetched = [
        Fetched(0, 5, value_of("one", 1)),
        Fetched(0, 6, value_of("two", 1)),
        Fetched(2, 9, value_of("one", 2)),
        Fetched(0, 7, value_of("one", 3)),
    ]
    out = io.StringIO()
    with redirect_stdout(out):
        positions = log_reads(EventLog("reader-1"), fetched)
    assert positions == {0: 8, 2: 10}
    history = History()
    history.add_member("readers", "reader-1", Side.SOURCE, parse_lines(out.getvalue().splitlines()))
    assert [(b.partition, b.offsets, b.ids) for b in history.reads["readers"]] == [
        (0, [5, 6], [RecordId("one", 1), RecordId("two", 1)]),
        (2, [9], [RecordId("one", 2)]),
        (0, [7], [RecordId("one", 3)]),
    ]


def test_an_ack_is_one_json_line() -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        EventLog("one").ack(4, 2, 99)
    event = json.loads(out.getvalue())
    assert (event["ev"], event["s"], event["p"], event["o"]) == ("ack", 4, 2, 99)


@pytest.mark.parametrize("line", ["[]", '{"t":1}', '{"ev":"ack"}', "no json"])
def test_a_line_that_is_no_event_is_refused(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json raises its own kind
        parse_lines([line])
