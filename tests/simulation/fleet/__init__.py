"""The gateways of a run as simulated processes, what they answer and log, and when their promotes have looked."""
