"""The one error of this package."""


class DevClusterError(Exception):
    """A cluster cannot be made, started or stopped. The message is one line for the person at the terminal."""
