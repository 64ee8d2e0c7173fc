"""The one error of this package."""


class BenchError(Exception):
    """A load could not be measured. The message is for the person at the terminal."""
