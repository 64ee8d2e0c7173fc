"""The slow path of the mirror: turns a source's records into batches that a broker accepts from a client.

`convert` turns the record set of a Fetch answer into pieces, each one batch of format v2 without gaps, and into skips,
where there is nothing to copy. Suitable batches come out untouched. Others are re-encoded: keys, values, headers and
timestamps stay, offset deltas are numbered from 0.
"""

from protocol.batch.reencode.convert import convert
from protocol.batch.reencode.pieces import CorruptRecords, Piece, Skip

__all__ = ["CorruptRecords", "Piece", "Skip", "convert"]
