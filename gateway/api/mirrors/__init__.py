"""/v3/links/{link}/mirrors: mirror topics, failback and failover, candidates, catch-up by a job."""
