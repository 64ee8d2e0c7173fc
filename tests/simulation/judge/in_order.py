"""Of runs in which nothing puts a producer off its course (`RunPlan.in_order`): what none of them may be told."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.errors import ErrorCode, error_name
from tests.simulation.clients import Producer, TransactionalProducer
from tests.simulation.judge.findings import Findings


def judge_in_order(writers: Iterable[Producer | TransactionalProducer], findings: Findings, now: float) -> None:
    """Judge what each was told."""
    for client in writers:
        if isinstance(client, TransactionalProducer):
            _judge_transactions(client, findings, now)
        elif client.sequences.bumps:
            # who begins an epoch sends again what may be there already, and no log tells whose fault that is
            what = "a batch of its was refused for its sequence: it overtook another one, and a new epoch was begun"
            findings.add("reordered", f"client {client.name}", what, now)


def _judge_transactions(client: TransactionalProducer, findings: Findings, now: float) -> None:
    """Who is told that there is no transaction to write in, or to end, has begun one, and not ended it."""
    for line in client.errors:
        if error_name(ErrorCode.INVALID_TXN_STATE) in line:
            what = f"somebody else has ended a transaction of its: {line}"
            findings.add("torn", f"client {client.name}", what, now)
