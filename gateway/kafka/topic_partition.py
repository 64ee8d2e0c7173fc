"""A partition of a topic, in Kafka's word.

A plain tuple, since keys of this kind are made for each batch of a Produce, where a named one would cost ten times as
much; and so that what Spark and JSON give back is one as well.
"""

from __future__ import annotations

from typing import TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
"""(topic, partition)."""
