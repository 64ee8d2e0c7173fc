"""What runs one partition's copy, shared by the live engine (`mirror`) and the jobs: runner, appender, log reader."""
