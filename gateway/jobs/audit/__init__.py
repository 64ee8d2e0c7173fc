"""The audit: is the target's copy of a topic the source's data? What it may say, and what it must refuse to say.

**Asked** is, of each partition, a range of offsets on both clusters (`asked.py`): on the source from where the mirror
began, or its log start, to its last stable offset as of the start; on the target what belongs to that, and whatever
stands behind it and was not written there since a cutover. Between the two stands the *relation* (`relation.py`): equal
offsets, or the offset maps of every mirror period that the topic has gone (`asked_periods.py`, by the gateway's own
rules).

**Every offset is accounted for**, on each side, in counts that the readers make (`compare.py`) and that must close
(`verdict.py`), of each partition and in all:

    offsets asked  = deleted while reading + records + transaction markers + aborted + without a record (compaction)
    source records = compared + different + gone by the target's retention + compacted away on the target + faults
    target records = compared + different + gone by the source's retention + compacted away on the source + faults
    target log     = offsets asked + written since the cutover
    pieces         = each of those planned, once: what gave no answer was not compared

Nothing is concluded from the absence of a row. **Verdicts**, the worst first:

* DIFFERENT (exit code 1): a record differs, is missing, or is too many. The first one, and how many.
* INCOMPLETE (4): no difference in what was compared, but something was not, or not for a reason that is known: behind,
  unreadable, not in the map, a log that starts later than retention explains, offsets that gave no record although the
  topic is not compacted, a topic that was created anew.
* EMPTY (5): nothing to compare, and nothing that should have been.
* IDENTICAL (0): all sums close. Of a sample, which vouches for what it read and nothing else, "IDENTICAL in the
  sample" (6).

2 is wrong usage, 3 a cluster that is out of reach, 4 also an audit that a cluster or Spark refused.

**Compacted topics** are cleaned by each cluster for itself. A record that one side lacks is explained there by a later
one with its key, or, of a tombstone, by there being none of its key at all (`keys.py`): the last value per key, in two
passes.

**While the topic is written**: what must not have anything of its own (the copy) is asked for its end before the other
side is, so that what it has beyond is a fault. Log starts may move on either side; what the other one still has there
must be as old as the retention that took it (`asked.py`).
"""
