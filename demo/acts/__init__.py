"""The acts of the demo, in the order of an operator's migration. Each one runs a few steps."""
