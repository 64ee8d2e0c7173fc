"""Secrets encrypted with the gateways' key."""

from __future__ import annotations

import base64

import pytest

from gateway.operations.secrets.rules.references import Reference, reference
from gateway.operations.secrets.sealing import SealingKeys, keys_of

ONE, TWO = bytes(range(32)), bytes(32)
PLACE = b"link l"


def sealed(keys: SealingKeys, secret: str) -> Reference:
    found = reference(keys.seal(secret, PLACE))
    assert found is not None
    return found


def test_it_opens_with_its_key_in_its_place_only() -> None:
    keys = SealingKeys([ONE])
    hidden = sealed(keys, "hush é")
    assert keys.open(hidden, PLACE) == "hush é"
    with pytest.raises(ValueError, match="was encrypted for other properties"):
        keys.open(hidden, b"link m")
    with pytest.raises(ValueError, match=f"is encrypted with key {keys.id}, which links.key_file of this"):
        SealingKeys([TWO]).open(hidden, PLACE)


def test_whoever_changes_it_is_noticed() -> None:
    keys = SealingKeys([ONE])
    hidden = sealed(keys, "hush")
    raw = bytearray(base64.urlsafe_b64decode(hidden.key))
    raw[-1] ^= 1
    for key in (base64.urlsafe_b64encode(raw).decode(), "", "!", "AAAA"):
        with pytest.raises(ValueError, match="or was changed since"):
            keys.open(hidden._replace(key=key), PLACE)


def test_the_same_secret_never_looks_the_same_and_is_not_in_it() -> None:
    keys = SealingKeys([ONE])
    first, second = keys.seal("hush", PLACE), keys.seal("hush", PLACE)
    assert first != second
    assert "hush" not in first
    assert base64.b64encode(ONE).decode() not in first


def test_an_older_key_still_opens() -> None:
    before = sealed(SealingKeys([ONE]), "hush")
    both = SealingKeys([TWO, ONE])
    assert both.open(before, PLACE) == "hush"
    assert sealed(both, "hush").path == both.id == SealingKeys([TWO]).id
    assert both.ids == (SealingKeys([TWO]).id, SealingKeys([ONE]).id)


def test_a_key_file() -> None:
    text = f"{base64.b64encode(TWO).decode()}\n{base64.b64encode(ONE).decode()}\n"
    assert keys_of(text).ids == SealingKeys([TWO, ONE]).ids


@pytest.mark.parametrize("text", ["", "\n", "hush", base64.b64encode(b"x" * 31).decode(), "é" * 44])
def test_a_key_file_of_no_use(text: str) -> None:
    with pytest.raises(ValueError, match="openssl rand -base64 32") as raised:
        keys_of(text)
    assert not text.strip() or text.strip() not in str(raised.value)
