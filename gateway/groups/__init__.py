"""Consumer groups: watched, promoted, demoted, failed over, their offsets synced."""
