"""The one error of the demo."""


class DemoError(Exception):
    """A step cannot go on. The message says what was waited for or what failed; `log_tail` shows why."""

    def __init__(self, message: str, log_tail: str = "") -> None:
        super().__init__(message)
        self.log_tail = log_tail
