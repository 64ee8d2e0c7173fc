"""What all operations of the control plane share: clusters, sources, offset translation, partners."""
