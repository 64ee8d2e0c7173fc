"""What a cluster says of who may do what: ACLs, SCRAM users, quotas, delegation tokens."""
