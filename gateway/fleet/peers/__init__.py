"""The channel between gateways: questions with answers, and heartbeats."""
