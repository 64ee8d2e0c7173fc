"""What facts about a mirror are facts of: its identity, direction and period, as one word."""

from __future__ import annotations

from gateway.state.records import MirrorRecord


def tag_of(record: MirrorRecord) -> str:
    """Tells the mirrors that a topic has had apart.

    Positions, log ends and log starts of one of them say nothing of another: after a change of sides the very numbers
    belong to the other cluster. So whoever tells a fact tells its tag, and a fact of another tag is no fact.
    """
    repaired = f".{record.repairs}" if record.repairs else ""
    return f"{record.mirror_id}.{record.failback.epoch}.{'back' if record.is_reverse else 'to'}{repaired}"
