"""The order of a producer's batches, transactional producers, port numbers: decisions of the proxy. Pure."""
