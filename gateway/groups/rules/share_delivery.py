"""What becomes of a share group's delivery state when its start offsets are carried over (KIP-932). Pure.

Theory of operation
-------------------
Of each partition a share group knows the *start offset*, and of each record behind it whether it is available, acquired
(by whom, until when), acknowledged, or given up, and how often it was delivered. The start offset is all that an API
tells and takes. So on the other cluster

* records before the start offset are done with, as before;
* records from it on are available, whatever they were: those that had been acknowledged out of order are delivered
  again, and every delivery count begins with 0;
* the start offset is what the share coordinator has stored, and it is stored with the acknowledgement that comes after
  it has moved (seen with 4.3.1): what was acknowledged last counts as acknowledged out of order;
* nobody holds a record. That is no loss, since a group is carried over when nobody is in it.

How many records are delivered again, the lag tells (KIP-1226): offsets from the start to the log end that are not done
with. What lies between and is not in the lag is done with. The log may grow between two looks, so the number is exact
where it was read between two equal ends, and else an upper bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from gateway.kafka.topic_partition import TopicPartition

_NAMED: Final = 5
STATE: Final = "delivery counts begin anew"


class Delivery(NamedTuple):
    """Of a partition. `start`, `lag`: as told, lag -1 for unknown. `end_before`, `end_after`: log ends around that."""

    start: int
    lag: int
    end_before: int
    end_after: int

    @property
    def again_at_most(self) -> int | None:
        """Offsets behind the start that are done with, and are delivered again; None where the lag is not known."""
        return None if self.lag < 0 else max(0, self.end_after - self.start - self.lag)

    @property
    def is_exact(self) -> bool:
        """The log stood still meanwhile."""
        return self.end_before == self.end_after


def delivery_note(found: Mapping[TopicPartition, Delivery]) -> str:
    """What an operator should know, on one line."""
    again = {key: one for key, one in sorted(found.items()) if one.again_at_most}
    unknown = sum(one.again_at_most is None for one in found.values())
    said = ["share group: its start offsets are carried", STATE]
    if again:
        total = sum(one.again_at_most or 0 for one in again.values())
        most = "" if all(one.is_exact for one in again.values()) else "at most "
        named = ", ".join(
            f"{topic}-{index}: {one.again_at_most}" for (topic, index), one in list(again.items())[:_NAMED]
        )
        more = f" and {len(again) - _NAMED} more" if len(again) > _NAMED else ""
        said.append(f"{most}{total} records behind them were done with and are delivered again ({named}{more})")
    elif not unknown:
        said.append("no record behind them was done with")
    if unknown:
        said.append(f"of {unknown} partition(s) the source does not tell what is done with (Kafka before 4.2)")
    return ", ".join(said)
