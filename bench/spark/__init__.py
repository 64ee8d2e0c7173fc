"""The Spark jobs beside MirrorMaker 2: see bench/README.md."""
