"""Error codes of transactional requests that the gateway answers itself: as old as the version, and of the target."""

from __future__ import annotations

from protocol.apis import ApiKey
from protocol.errors import ErrorCode

# PRODUCER_FENCED exists from these versions on; before, INVALID_PRODUCER_EPOCH says the same. Produce and
# TxnOffsetCommit have only the latter in the versions that are advertised.
_FENCED_FROM = {
    int(ApiKey.INIT_PRODUCER_ID): 4,
    int(ApiKey.ADD_PARTITIONS_TO_TXN): 2,
    int(ApiKey.ADD_OFFSETS_TO_TXN): 2,
    int(ApiKey.END_TXN): 2,
}
_NEVER = 1 << 15
_MEMBERS_FROM = 3  # TxnOffsetCommit names the member (KIP-447)
_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def answered_code(key: int, version: int, code: int) -> int:
    """The code by which a broker tells a client of this version.

    Clients know the target's coordinators only. One that moved elsewhere is found again by the gateway: a client that
    was told of it would drop its own, to find the same one again.
    """
    if code in _MOVED:
        return int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    if code == ErrorCode.UNKNOWN_MEMBER_ID and key == ApiKey.TXN_OFFSET_COMMIT and version < _MEMBERS_FROM:
        return int(ErrorCode.GROUP_AUTHORIZATION_FAILED)  # of old, the one after which clients abort, and no more
    if code == ErrorCode.PRODUCER_FENCED and version < _FENCED_FROM.get(key, _NEVER):
        return int(ErrorCode.INVALID_PRODUCER_EPOCH)
    return int(code)
