"""What can go wrong with the state."""

from __future__ import annotations


class StoreError(Exception):
    """The state could not be read or written; nothing was changed. The message is for the operator."""


class StoreUncertain(StoreError):
    """The target did not answer a commit in time: the change may or may not be in the topic."""


class ProducerFenced(StoreError):
    """This process can never write the state again, most likely since another one took over. It must stop."""


class StoreConflict(StoreError):
    """The record was changed or deleted meanwhile; nothing was written. Read it again and decide anew."""


class StateReadTooLate(StoreError):
    """The state topic was not read for so long that deletions may have been missed: it is to be read anew."""


class StateWentBack(StoreError):
    """The state topic has lost records that were read from it.

    Attributes:
        end: what was read below this offset of the topic is still there.
    """

    def __init__(self, message: str, end: int) -> None:
        super().__init__(message)
        self.end = end
