"""The application: processes that know Kafka, a registry and their own login, and nothing of a migration."""
