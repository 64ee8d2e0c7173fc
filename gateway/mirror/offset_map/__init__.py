"""The offset maps of a link, for topics whose offsets differ: kept in a compacted topic, written ahead."""
