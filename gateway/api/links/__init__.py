"""/v3/links: links, their configs, and what goes along with them: ACLs, users, quotas, schemas."""
