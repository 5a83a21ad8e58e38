"""Every refusal has a status, and a sentence that says what to do."""

from __future__ import annotations

import pytest

from proxy.wire.faults import REASONS, fault, fault_from_words


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_every_reason_makes_a_sentence(reason: str) -> None:
    """A fault of the client's gets a status of its own; a fault of the server's is a 502, whatever it is."""
    for side in ("request", "response"):
        made = fault(side, reason, "words of the parser")
        assert made.reason == reason
        assert made.detail[0].isupper()
        assert made.detail.endswith(".")
        assert not set("{}") & set(made.detail)
        assert made.status == 502 if side == "response" else 400 <= made.status < 600


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("Invalid HTTP version", "unsupported_version"),
        ("Content-Length can't be present with Transfer-Encoding", "ambiguous_length"),
        ("Invalid character in Content-Length", "bad_content_length"),
        ("Request has invalid `Transfer-Encoding`", "unsupported_transfer_coding"),
        ("Invalid character in chunk size", "bad_chunk"),
        ("Missing expected CR after header value", "bad_field"),
        ("Invalid header token", "bad_field"),
        ("Invalid char in url query", "bad_target"),
        ("Something nobody has heard of", "malformed"),
    ],
)
def test_words_of_the_parser_underneath(words: str, reason: str) -> None:
    """A part of them is enough, so that a new release with a new wording costs a word in a record and nothing else."""
    assert fault_from_words("request", words).reason == reason
