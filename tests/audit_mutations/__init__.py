"""Differences seeded into pairs of logs, in every mode and state of a mirror: the audit must find each by its name, and
must say IDENTICAL of pairs that are equal. All of it runs on logs in memory, by the audit's own code."""
