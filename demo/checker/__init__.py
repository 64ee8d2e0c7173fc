"""The judge: from what the clients logged and what the logs hold, did the migration lose, repeat or reorder anything?

Pure and linear; it never sees the gateway. Rules, in the order of the final line:

- lost: acknowledged to a producer, not on the target.
- duplicated: the same record (producer, number) on the target again.
- reordered: on the target behind a later record of the same producer and partition, or in another order than on the
  source.
- missed: on the target, never read by any member of a group. reread: read again by a group, by whichever member.
- offsets_equal: up to the cut, every source offset holds the same record (key, value, headers, timestamp) on the
  target and nothing else is there; and every acknowledgement named the offset at which the target holds the record.
- promote_gap_ms, group_switch_ms: see `timing`.
"""

from demo.checker.check import check
from demo.checker.logs import LogRecord, TopicLog
from demo.checker.timing import Window
from demo.checker.verdict import GroupVerdict, Limits, Verdict

__all__ = ["GroupVerdict", "Limits", "LogRecord", "TopicLog", "Verdict", "Window", "check"]
