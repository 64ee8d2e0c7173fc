"""What is to become of schemas, decided on what both registries have said. Pure."""
