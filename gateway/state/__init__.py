"""What the control plane knows: records, their codec, and the compacted topic on the target that keeps them."""
