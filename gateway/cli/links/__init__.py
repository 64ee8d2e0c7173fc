"""`lockgate link`, and what goes along with a link: ACLs, users, quotas, schemas."""
