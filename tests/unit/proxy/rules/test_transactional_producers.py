"""A transactional producer between two clusters: any order of its requests, fences, cutovers and restarts."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.proxy.rules.transactional_ids import (
    OWN,
    TARGET,
    ProducerIdentity,
    ProducerRecord,
    TransactionSide,
    decode,
    encode,
    id_at,
    merged,
)
from gateway.proxy.rules.transactional_producers import (
    Admission,
    PauseState,
    TopicPlacement,
    TransactionalProducer,
    Violation,
)

CLIENT = ProducerIdentity(7, 3)
LINK = "l"
SOURCE = TransactionSide(LINK)
HERE, THERE = TopicPlacement(TARGET), TopicPlacement(LINK)


def producer() -> TransactionalProducer:
    return TransactionalProducer("tx", CLIENT)


def test_a_transaction_goes_where_its_topics_are() -> None:
    assert producer().decide({"a": THERE, "b": THERE}, 0).side == SOURCE
    assert producer().decide({"a": HERE}, 0).side == OWN
    decision = producer().decide({"a": THERE, "b": HERE}, 0)
    assert (decision.verdict, decision.names) == (Admission.REFUSE, ("b",))


def test_an_open_transaction_keeps_its_place() -> None:
    one = producer()
    one.begin(SOURCE, {"a"}, 0.0)
    assert one.decide({"b": THERE}, 0).side == SOURCE
    assert one.decide({"a": HERE, "b": HERE}, 0).names == ("b",)
    with pytest.raises(Violation):
        one.begin(OWN, {"b"}, 0.0)
    with pytest.raises(Violation):
        one.produce(OWN)


def test_a_write_pause_holds_what_is_new_and_lets_go_on_what_is_open() -> None:
    one = producer()
    closing, closed = TopicPlacement(LINK, PauseState.CLOSING), TopicPlacement(LINK, PauseState.CLOSED)
    assert one.decide({"a": closing}, 0).verdict is Admission.HOLD
    one.begin(SOURCE, {"a"}, 0.0)
    assert one.decide({"a": closing, "b": closing}, 0).verdict is Admission.GO
    assert one.decide({"b": closed}, 0).verdict is Admission.HOLD
    assert one.blocks("b", {"a", "b"})  # it may take b in yet
    assert not one.blocks("c", {"c"})
    one.end(commit=True)
    one.ended()
    assert one.blocks("a", {"a", "b"})  # the markers may still come
    one.mark_written()
    assert not one.blocks("a", {"a", "b"})


def test_an_end_is_sent_once_and_after_all_data() -> None:
    one = producer()
    one.begin(SOURCE, {"a"}, 0.0)
    one.produce(SOURCE)
    with pytest.raises(Violation):
        one.end(commit=True)
    one.produced()
    one.end(commit=True)
    one.end(commit=True)  # the client's own retry
    one.ended()
    assert one.end_place(commit=True) == SOURCE  # a repeat that comes after the cutover


def test_a_generation_is_never_left_for_a_lower_one() -> None:
    one = TransactionalProducer("tx", CLIENT, ProducerRecord("tx", CLIENT, sides={TransactionSide(LINK, 2): CLIENT}))
    assert one.decide({"a": THERE}, 0).side == TransactionSide(LINK, 2)
    assert one.decide({"a": HERE}, 1).side == TransactionSide(TARGET, 1)
    assert id_at("tx", TransactionSide(LINK, 2)) != id_at("tx", TransactionSide(LINK, 1)) != id_at("tx", SOURCE) == "tx"


def test_records_survive_their_encoding() -> None:
    record = ProducerRecord(
        "é/tx", CLIENT, 1234, {SOURCE: ProducerIdentity(2**60, 32767), TransactionSide(TARGET, 1): CLIENT}
    )
    assert decode("é/tx", encode(record)) == record
    for value in (b"", b"[]", b"{}", b'{"v":2}', b'{"v":1,"client":[1],"timeout_ms":1,"places":[]}', b"\xff"):
        with pytest.raises(ValueError, match="transactional id 'tx'"):
            decode("tx", value)


def test_the_newest_instance_is_in_force_in_whatever_order_gateways_write() -> None:
    def record(epoch: int, **sides: int) -> ProducerRecord:
        return ProducerRecord(
            "tx",
            ProducerIdentity(7, epoch),
            sides={TransactionSide(k): ProducerIdentity(9, v) for k, v in sides.items()},
        )

    assert merged(None, record(1)) == record(1)
    assert merged(record(1, l=4), record(2, l=5)) == record(2, l=5)
    # the older instance was initialised on the source after the newer one, by another gateway
    assert merged(record(2, l=5), record(1, l=6)) == merged(record(1, l=6), record(2, l=5)) == record(2, l=6)
    # where the newer one has no identity, it has none to inherit: the older is not fenced there
    assert merged(record(1, l=6), record(2)) == merged(record(2), record(1, l=6)) == record(2)
    assert merged(record(2, l=5), record(2, m=1)) == record(2, l=5, m=1)
    other = ProducerRecord("tx", ProducerIdentity(8, 0))
    assert merged(record(9), other) == other


class Lives(RuleBasedStateMachine):
    """Two topics of one promote set. The coordinators are played: they note what they were sent, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.one = producer()
        self.pause = PauseState.NONE
        self.side = LINK
        self.sent: list[tuple[str, str]] = []  # (cluster, what)
        self.data: set[str] = set()  # clusters of the open transaction's data
        self.cutover_at: int | None = None

    @rule(topics=st.sets(st.sampled_from("ab"), min_size=1))
    def add(self, topics: set[str]) -> None:
        if self.one.open is not None and self.one.open.result is not None:
            return  # the client waits for the answer to its end
        decision = self.one.decide(dict.fromkeys(topics, TopicPlacement(self.side, self.pause)), 0)
        assert decision.verdict is not Admission.REFUSE
        if decision.verdict is Admission.GO:
            self.one.begin(decision.side, topics, 0.0)
            self.sent.append((decision.side.cluster, "add"))
            self.one.confirm()

    @precondition(lambda self: self.one.open is not None and self.one.open.result is None)
    @rule()
    def produce(self) -> None:
        assert self.one.open is not None
        side = self.one.open.side
        self.one.produce(side)
        self.sent.append((side.cluster, "data"))
        self.data.add(side.cluster)

    @precondition(lambda self: self.one.in_flight)
    @rule()
    def acknowledge(self) -> None:
        self.one.produced()

    @precondition(lambda self: self.one.open is not None and not self.one.in_flight)
    @rule(commit=st.booleans())
    def end(self, commit: bool) -> None:
        assert self.one.open is not None
        if self.one.open.result not in (None, commit):
            return
        self.one.end(commit=commit)
        self.sent.append((self.one.end_place(commit=commit).cluster, "end"))

    @precondition(lambda self: self.one.open is not None and self.one.open.result is not None)
    @rule(answer=st.sampled_from(["ok", "again", "lost"]))
    def answer(self, answer: str) -> None:
        if answer == "ok":
            self.one.ended()
            self.data.clear()
        elif answer == "again":
            self.one.not_ended()

    @rule()
    def markers_written(self) -> None:
        self.one.mark_written()

    @precondition(lambda self: self.pause is PauseState.NONE and self.side == LINK)
    @rule()
    def pause_begins(self) -> None:
        self.pause = PauseState.CLOSING

    @precondition(lambda self: self.pause is PauseState.CLOSING)
    @rule()
    def pause_acknowledged(self) -> None:
        if not any(self.one.blocks(topic, {"a", "b"}) for topic in "ab"):
            self.pause = PauseState.CLOSED

    @precondition(lambda self: self.pause is PauseState.CLOSED)
    @rule()
    def cutover(self) -> None:
        self.side, self.pause = TARGET, PauseState.NONE
        self.cutover_at = len(self.sent)

    @precondition(lambda self: self.pause is not PauseState.NONE)
    @rule()
    def pause_given_up(self) -> None:
        self.pause = PauseState.NONE

    @invariant()
    def one_side_per_transaction(self) -> None:
        assert len(self.data) <= 1

    @invariant()
    def nothing_on_the_wrong_side_of_the_cutover(self) -> None:
        at = len(self.sent) if self.cutover_at is None else self.cutover_at
        assert all(cluster == LINK for cluster, _ in self.sent[:at])
        assert all(cluster == TARGET for cluster, _ in self.sent[at:])

    @invariant()
    def no_open_transaction_under_a_closed_fence(self) -> None:
        assert self.pause is not PauseState.CLOSED or self.one.open is None


TestLives = Lives.TestCase
