"""First on a process's path, this makes it one without pandas: the jobs go without it, a client of Spark Connect (which
the tests have, too) does not."""

raise ImportError("the jobs are tested without pandas")
