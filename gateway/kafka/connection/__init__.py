"""One connection to one broker, and the pool of them: opened, secured, authenticated, pipelined."""
