"""Promote: writes paused, the mirror drained, the topic cut over to the target."""
