"""Our own client of a Kafka cluster: metadata, coordinators, admin, offsets, groups, compacted topics."""
