"""`make demo`: a whole migration between two real Kafka clusters, judged from what the clients saw."""
