"""The slow path of the mirror: what a source holds, as batches that a broker takes from a client.

`convert` turns the record set of a Fetch answer into pieces, each of which is one batch of format v2 without gaps,
and into skips, where there is nothing to copy. Batches that are fit as they are come out untouched. The others are
encoded anew: keys, values, headers and timestamps stay as they are, offset deltas are numbered from 0.
"""

from protocol.batch.reencode.convert import convert
from protocol.batch.reencode.pieces import CorruptRecords, Piece, Skip

__all__ = ["CorruptRecords", "Piece", "Skip", "convert"]
