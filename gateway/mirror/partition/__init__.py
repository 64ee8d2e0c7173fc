"""One partition's copy at work, shared by the live engine and the jobs: runner, appender, log reader."""
