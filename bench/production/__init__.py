"""What it costs in production's shape: three brokers a side, replication factor 3, min.insync.replicas 2.

`python -m bench.production` measures the mirror beside MirrorMaker 2 on backlogs of small, usual and large batches; how
far behind a steady stream of tiny batches is; a source that is far away, and replicas that are far from each other; and
what many partitions cost: to create, at rest, to promote, and afterwards. Both clusters and the load are on this
machine: rates say little of others, ratios within a run do.
"""
