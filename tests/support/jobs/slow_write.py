"""A driver of its own that copies a topic slowly, to be killed or overtaken.

python -m tests.support.jobs.slow_write SOURCE TOPIC OPTIONS_OF_THE_WRITER
"""

from __future__ import annotations

import ast
import sys

from gateway.jobs.session import build_session


def main(source: str, topic: str, options: str) -> None:
    spark = build_session("slow write", master="local[2]")
    named = {"kafka.bootstrap.servers": source, "subscribe": topic}
    rows = spark.read.format("kafka-ranges").options(**named).load()
    write = rows.write.format("kafka-batches").options(**ast.literal_eval(options))
    write.option("throttleBytesPerSecond", "30000").mode("append").save()


if __name__ == "__main__":
    main(*sys.argv[1:])
