"""Plain text: what may be passed on, and where it can be cut without harm."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.characters import CharacterBoundary
from tests.wire.feeding import byte_by_byte, pieces


@pytest.mark.parametrize("character", ["t", "é", "茶", "🫖"])
def test_a_character_passes_when_it_is_whole(character: str) -> None:
    *begun, last = byte_by_byte(character.encode())
    boundary = CharacterBoundary()
    assert boundary.feed(b"tea ") == b"tea "
    for byte in begun:
        assert boundary.feed(byte) == b""
        assert not boundary.between_events
    assert boundary.feed(last) == character.encode()
    assert boundary.between_events


@pytest.mark.parametrize(
    "wire",
    [b"\x80\x80\x80\x80", b"\xff", b"\xc0", b"\xf5", b"\xe8t", b"\xf0\x9f\xab\n", b"\xc3\xc3\xa9", b""],
)
def test_what_is_no_text_passes_all_the_same(wire: bytes) -> None:
    """It is nobody's beginning, or not for long."""
    boundary = CharacterBoundary()
    assert b"".join(map(boundary.feed, byte_by_byte(wire))) == wire
    assert boundary.between_events


def test_the_end_of_a_stream() -> None:
    """A beginning that nothing has followed is passed on, and the stream then ended inside a character."""
    boundary = CharacterBoundary()
    assert boundary.feed("tea 茶".encode()[:-1]) == b"tea "
    assert boundary.flush() == "茶".encode()[:-1]
    assert boundary.flush() == b""
    assert not boundary.between_events


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode), st.data())
def test_no_byte_is_lost_and_little_is_kept_back(wire: bytes, data: st.DataObject) -> None:
    boundary = CharacterBoundary()
    passed = b""
    fed = b""
    for piece in data.draw(pieces(wire)):
        fed += piece
        passed += boundary.feed(piece)
        assert fed.startswith(passed)
        assert len(fed) - len(passed) <= 3
        assert boundary.between_events is (passed == fed)
    assert passed + boundary.flush() == wire


@given(st.text(max_size=40).map(str.encode), st.data())
def test_what_has_passed_of_a_text_is_all_that_can_be_read(wire: bytes, data: st.DataObject) -> None:
    """As a decoder has it that waits for what is missing."""
    boundary = CharacterBoundary()
    decoder = codecs.getincrementaldecoder("utf-8")()
    for piece in data.draw(pieces(wire)):
        assert boundary.feed(piece).decode() == decoder.decode(piece)
