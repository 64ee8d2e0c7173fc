"""`identity: token`: the gateway finds out who a client is, and logs in at the target as that principal."""
