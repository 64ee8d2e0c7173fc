"""`make demo-carry`: an application moves with its rights, users, quotas, schemas and a share group."""
