"""The clients of this demo that no other one has."""
