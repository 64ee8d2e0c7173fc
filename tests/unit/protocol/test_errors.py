"""Error codes against kio's table."""

from kio.schema.errors import ErrorCode as KioErrorCode

from protocol.errors import ErrorCode, IncompleteFrame, MalformedFrame, ProtocolError, error_name, is_retriable


def test_codes_names_and_retriability_are_kios() -> None:
    theirs = {int(code): code for code in KioErrorCode}
    assert {int(code): code.name for code in ErrorCode} == {n: code.name.upper() for n, code in theirs.items()}
    assert {n for n in theirs if is_retriable(n)} == {n for n, code in theirs.items() if code.retriable}


def test_names() -> None:
    assert error_name(6) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(9999) == "ERROR_9999"
    assert not is_retriable(9999)


def test_one_base() -> None:
    assert issubclass(IncompleteFrame, MalformedFrame)
    assert issubclass(MalformedFrame, ProtocolError)
