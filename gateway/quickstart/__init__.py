"""`lockgate quickstart`: two clusters of one broker, a gateway, clients under load, and a migration to walk through.

Everything is real and on this machine: brokers and clients are Apache Kafka's own, started from its jars
(`gateway.devcluster`); each step of the migration is a command of the command line, shown and then run. All files are
in one folder, and each process is known by the configuration file in its command line, so that whatever is left of a
quickstart that was killed can be ended by a later command (`lab.py`).
"""
