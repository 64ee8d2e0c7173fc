"""What an operation can answer instead of doing its work. REST turns `status` into the HTTP status."""

from __future__ import annotations


class ControlError(Exception):
    """An operation was not done, and nothing was changed. The message is one line, for the operator."""

    status = 500


class BadRequest(ControlError):
    """The request itself cannot be right: a bad name, option or combination."""

    status = 400


class NotFound(ControlError):
    """A name that does not exist."""

    status = 404


class Conflict(ControlError):
    """Wrong state, or it exists already."""

    status = 409


class SourceUnreachable(ControlError):
    """The source cluster does not answer, or refuses us."""

    status = 502


class TargetUnreachable(ControlError):
    """The target cluster does not answer, or refuses us; the state could not be written."""

    status = 503


class Busy(ControlError):
    """There are too many of these already; later it may go."""

    status = 503
